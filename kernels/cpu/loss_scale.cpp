// The finite check of a training step and what follows from it.

#include <demi/ops/loss_scale.h>

#include <atomic>
#include <cstddef>

#include "kernels/cpu/finite.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/tensor_chunks.h"

namespace demi::cpu {
namespace {

std::unique_ptr<Kernel> all_finite_factory(const KernelRequest& request, ThreadPool& pool,
                                           std::string&) {
  constexpr std::int64_t kGrain = 65536;
  std::vector<DType> dtypes;
  for (const TensorType& input : request.inputs) dtypes.push_back(input.dtype);
  return make_kernel(
      "bits", 0,
      [dtypes = std::move(dtypes), chunks = chunks_of(request.inputs, kGrain),
       &pool](const KernelArguments& arguments) {
        std::atomic<bool> all{true};
        pool.parallel_for(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t i, int) {
          const TensorChunk& chunk = chunks[static_cast<std::size_t>(i)];
          const DType dtype = dtypes[chunk.tensor];
          const auto* data = static_cast<const std::byte*>(arguments.inputs[chunk.tensor]) +
                             chunk.first * static_cast<std::int64_t>(size_of(dtype));
          if (!all_finite(data, dtype, chunk.count)) {
            all.store(false, std::memory_order_relaxed);
          }
        });
        *arguments.output<bool>(0) = all.load();
      });
}

std::unique_ptr<Kernel> loss_scale_update_factory(const KernelRequest& request, ThreadPool&,
                                                  std::string&) {
  const auto attributes = request.attributes.as<ops::LossScaleAttributes>();
  return make_kernel("scalar", 0, [attributes](const KernelArguments& arguments) {
    auto* scale = arguments.output<float>(0);
    auto* good_steps = arguments.output<std::int64_t>(1);
    auto* skipped_steps = arguments.output<std::int64_t>(2);
    auto* consecutive_skips = arguments.output<std::int64_t>(3);
    float factor = 1;
    if (*arguments.input<bool>(4)) {
      *consecutive_skips = 0;
      ++*good_steps;
      if (attributes.dynamic && *good_steps >= attributes.growth_steps) factor = 2;
    } else {
      ++*skipped_steps;
      ++*consecutive_skips;
      *good_steps = 0;
      if (attributes.dynamic) factor = 0.5f;
    }
    if (factor == 1) return;
    *good_steps = 0;
    *scale = std::clamp(*scale * factor, static_cast<float>(ops::kMinLossScale),
                        static_cast<float>(ops::kMaxLossScale));
  });
}

}  // namespace

void register_loss_scale_kernels(Registry& registry) {
  registry.add("all_finite", "bits", all_finite_factory);
  registry.add("loss_scale_update", "scalar", loss_scale_update_factory);
}

}  // namespace demi::cpu
