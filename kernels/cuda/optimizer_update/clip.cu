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
  bool begins;  ///< the first table of the op
  bool ends;    ///< the last one
  const float* inverse_scale;
  double* running_sum;  ///< of the tables so far, if global
  double* partials;     ///< [chunks]
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
  for (int chunk = table.first_chunk[entry] + static_cast<int>(threadIdx.x) % 32;
       chunk < table.first_chunk[entry + 1]; chunk += 32) {
    sum += partials[chunk];
  }
  return reduce_lanes(sum, 32, Sum{});
}

__global__ void clip_coefficients(Table<1> table, Clip clip) {
  DEMI_SHARED(double, sums, [kThreads / 32]);
  for (int chunk = static_cast<int>(blockIdx.x); chunk < table.chunks();
       chunk += static_cast<int>(gridDim.x)) {
    double sum = 0;
    for_packets_of(table, chunk, [&](int entry, std::int64_t first, int count) {
      double values[kLength] = {};
      load_some(table.address[0][entry], table.dtype[0][entry], first, count, values);
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
      clip.coefficients[table.tensor[entry]] = coefficient(clip, of_entry);
    }
  }
  if (leads) sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0 || !clip.global) return;
  double total = clip.begins ? 0.0 : *clip.running_sum;
  for (int i = 0; i < kThreads / 32; ++i) total += sums[i];
  *clip.running_sum = total;
  if (clip.ends) clip.coefficients[0] = coefficient(clip, total);
}

std::unique_ptr<Kernel> make_clip(const KernelRequest& request, Context& context, std::string&) {
  std::vector<Entry<1>> entries;
  for (const TensorType& gradient : request.inputs.subspan(1)) {
    entries.push_back({.elements = gradient.shape.elements(), .dtype = {gradient.dtype}});
  }
  const auto all = tables(entries, [](const auto&) { return true; });
  int chunks = 0;
  for (const auto& table : all) chunks = std::max(chunks, table.chunks());
  const auto bytes = (static_cast<std::size_t>(chunks) + 1) * sizeof(double);
  const auto body = [all, &context, attributes = request.attributes.as<ops::ClipAttributes>(),
                     counter = context.block_counter()](const KernelArguments& arguments) {
    auto* workspace = static_cast<double*>(arguments.workspace);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Clip clip{.norm = attributes.norm,
                      .global = attributes.global,
                      .begins = i == 0,
                      .ends = i + 1 == all.size(),
                      .inverse_scale = arguments.input<float>(0),
                      .running_sum = workspace,
                      .partials = workspace + 1,
                      .counter = counter,
                      .coefficients = arguments.output<float>(0)};
      const auto table = with_addresses(all[i], [&](int, std::size_t tensor) {
        return const_cast<void*>(arguments.inputs[1 + tensor]);
      });
      // One block at least: coefficients of empty tensors are written too.
      launch(&clip_coefficients, std::max(blocks_for_chunks(table, context), 1U), kThreads, 0,
             context.stream(), table, clip);
    }
  };
  return make_kernel("tables", bytes, body, static_cast<int>(all.size()));
}

}  // namespace

void register_clip(Registry& registry) {
  registry.add("clip_coefficients", "tables", make_clip);
}

}  // namespace demi::cuda::optimizer_update
