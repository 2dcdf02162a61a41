// clip_coefficients: sums of squares of chunks by all blocks, then of tensors by the last block.

#include <cmath>
#include <limits>

#include <demi/ops/optimizer_update.h>

#include "kernels/cuda/optimizer_update/register.h"
#include "kernels/cuda/optimizer_update/tensors.cuh"
#include "kernels/cuda/reduce.cuh"

namespace demi::cuda::optimizer_update {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Clip {
  double norm;
  bool global;
  const float* inverse_scale;
  double* partials;  ///< [chunks]
  unsigned* counter;
  float* coefficients;
};

__device__ float coefficient(const Clip& clip, double sum_of_squares) {
  const double norm = std::sqrt(sum_of_squares) * *clip.inverse_scale;
  if (!(norm <= kLargest)) {
    return kNaN;
  }
  return norm > clip.norm ? static_cast<float>(clip.norm / norm) : 1.0F;
}

/// The sum of the partials of one entry, by a warp; every lane gets it.
__device__ double sum_of_entry(const Table<1>& table, int entry, const double* partials) {
  double sum = 0;
  const int end = entry + 1 < table.count ? table.entries[entry + 1].first_chunk : table.chunks;
  for (int chunk = table.entries[entry].first_chunk + static_cast<int>(threadIdx.x) % 32;
       chunk < end; chunk += 32) {
    sum += partials[chunk];
  }
  return reduce_lanes(sum, 32, Sum{});
}

__global__ void clip_coefficients(Table<1> table, Clip clip) {
  DEMI_SHARED(double, sums, [kThreads / 32]);
  for (int chunk = static_cast<int>(blockIdx.x); chunk < table.chunks;
       chunk += static_cast<int>(gridDim.x)) {
    double sum = 0;
    for_packets_of(table, chunk, [&](const Entry<1>& entry, std::int64_t first, int count) {
      double values[kLength] = {};
      load_some(entry.address[0], entry.dtype[0], first, count, values);
      DEMI_UNROLL
      for (int i = 0; i < kLength; ++i) sum += values[i] * values[i];
    });
    sum = reduce_block(sum, Sum{});
    if (threadIdx.x == 0) clip.partials[chunk] = sum;
  }
  if (!is_last_block(clip.counter)) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool leads = threadIdx.x % 32 == 0;
  double sum = 0;
  for (int entry = warp; entry < table.count; entry += kThreads / 32) {
    const double of_entry = sum_of_entry(table, entry, clip.partials);
    sum += of_entry;
    if (leads && !clip.global) {
      clip.coefficients[table.entries[entry].tensor] = coefficient(clip, of_entry);
    }
  }
  if (leads) sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0 || !clip.global) return;
  double total = 0;
  for (int i = 0; i < kThreads / 32; ++i) total += sums[i];
  clip.coefficients[0] = coefficient(clip, total);
}

std::unique_ptr<Kernel> make_clip(const KernelRequest& request, Context& context, std::string&) {
  std::vector<Entry<1>> entries;
  for (const TensorType& gradient : request.inputs.subspan(1)) {
    Entry<1>& entry = entries.emplace_back();
    entry.elements = gradient.shape.elements();
    entry.dtype[0] = gradient.dtype;
  }
  const Tensors<1> all(
      entries, [](const auto&) { return true; }, context);
  const auto bytes = static_cast<std::size_t>(all.chunks()) * sizeof(double);
  const auto body = [all, &context, attributes = request.attributes.as<ops::ClipAttributes>(),
                     counter = context.block_counter()](const KernelArguments& arguments) {
    const Clip clip{.norm = attributes.norm,
                    .global = attributes.global,
                    .inverse_scale = arguments.input<float>(0),
                    .partials = static_cast<double*>(arguments.workspace),
                    .counter = counter,
                    .coefficients = arguments.output<float>(0)};
    const auto table = all.table(
        [&](int, std::size_t tensor) { return const_cast<void*>(arguments.inputs[1 + tensor]); });
    launch(&clip_coefficients, all.blocks(), kThreads, 0, context.stream(), table, clip);
  };
  return make_kernel("tables", bytes, body);
}

}  // namespace

void register_clip(Registry& registry) {
  registry.add("clip_coefficients", "tables", make_clip);
}

}  // namespace demi::cuda::optimizer_update
