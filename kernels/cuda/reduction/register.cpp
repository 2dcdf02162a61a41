#include <demi/ops/reduction.h>

#include "kernels/cuda/reduction/reduction.h"

namespace demi::cuda {
namespace {

template <Reduction kReduction>
std::unique_ptr<Kernel> make_over_axes(const KernelRequest& request, Context& context,
                                       std::string&) {
  AxisSet axes;
  for (const int axis : request.attributes.as<ops::ReductionAttributes>().axes) {
    axes.set(static_cast<std::size_t>(axis));
  }
  return make_reduction(kReduction, request.inputs[0], axes, request.outputs[0].dtype, context);
}

}  // namespace

std::unique_ptr<Kernel> make_reduction(Reduction reduction, const TensorType& x, AxisSet axes,
                                       DType result, Context& context) {
  if (reduction == Reduction::kMax) return make_max(x, axes, result, context);
  return make_sum(x, axes, reduction == Reduction::kMean, result, context);
}

void register_reduction_kernels(Registry& registry) {
  registry.add("sum", "reduce", make_over_axes<Reduction::kSum>);
  registry.add("mean", "reduce", make_over_axes<Reduction::kMean>);
  registry.add("max", "reduce", make_over_axes<Reduction::kMax>);
  registry.add("argmax", "scan", make_argmax);
}

}  // namespace demi::cuda
