// Kernels of the family cast.

#include <demi/ops/cast.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

constexpr std::int64_t kBlock = 512;

std::unique_ptr<Kernel> make_cast(const KernelRequest& request, ThreadPool& pool, std::string&) {
  const DType from = request.inputs[0].dtype;
  const DType to = request.outputs[0].dtype;
  return make_kernel(
      "block", 0,
      [&pool, count = request.outputs[0].shape.elements(),
       from_size = static_cast<std::int64_t>(size_of(from)),
       to_size = static_cast<std::int64_t>(size_of(to)),
       convert = converter(from, to)](const KernelArguments& arguments) {
        const auto* x = arguments.input<char>(0);
        auto* y = arguments.output<char>(0);
        for_ranges(pool, count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
          convert(x + begin * from_size, y + begin * to_size, end - begin);
        });
      });
}

/// y = x · scale + offset in Compute, from and to any storage type.
template <class Compute>
std::unique_ptr<Kernel> make_rescale_in(const KernelRequest& request, ThreadPool& pool) {
  const DType from = request.inputs[0].dtype;
  const DType to = request.outputs[0].dtype;
  const auto& attributes = request.attributes.as<ops::RescaleAttributes>();
  return make_kernel(
      "block", 0,
      [&pool, count = request.outputs[0].shape.elements(),
       from_size = static_cast<std::int64_t>(size_of(from)),
       to_size = static_cast<std::int64_t>(size_of(to)), load = converter(from, dtype_of<Compute>),
       store = converter(dtype_of<Compute>, to), scale = static_cast<Compute>(attributes.scale),
       offset = static_cast<Compute>(attributes.offset)](const KernelArguments& arguments) {
        const auto* x = arguments.input<char>(0);
        auto* y = arguments.output<char>(0);
        for_ranges(pool, count, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
          Compute block[kBlock];
          for (std::int64_t at = begin; at < end; at += kBlock) {
            const std::int64_t n = std::min(kBlock, end - at);
            load(x + at * from_size, block, n);
            for (std::int64_t i = 0; i < n; ++i) block[i] = block[i] * scale + offset;
            store(block, y + at * to_size, n);
          }
        });
      });
}

std::unique_ptr<Kernel> make_rescale(const KernelRequest& request, ThreadPool& pool, std::string&) {
  const bool wide = request.inputs[0].dtype == float64 || request.outputs[0].dtype == float64;
  return wide ? make_rescale_in<double>(request, pool) : make_rescale_in<float>(request, pool);
}

}  // namespace

void register_cast_kernels(Registry& registry) {
  registry.add("cast", "block", make_cast);
  registry.add("rescale", "block", make_rescale);
}

}  // namespace demi::cpu
