#include <demi/ops/cast.h>

#include <cmath>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const CastAttributes& attributes) {
  return fmt::format("dtype={}", to_string(attributes.dtype));
}

std::string describe(const RescaleAttributes& attributes) {
  return fmt::format("scale={}, offset={}", attributes.scale, attributes.offset);
}

SymbolicTensor cast(const SymbolicTensor& x, DType dtype) {
  return ir::emit("cast", {x}, CastAttributes{dtype});
}

SymbolicTensor rescale(const SymbolicTensor& x, double scale, double offset) {
  if (!std::isfinite(scale) || !std::isfinite(offset)) {
    internal::fail_argument(
        "rescale",
        fmt::format("expected a finite scale and offset. Received: {} and {}.", scale, offset));
  }
  return ir::emit("rescale", {x}, RescaleAttributes{scale, offset});
}

}  // namespace ops

namespace ir {
namespace {

std::vector<TensorType> infer_cast(const InferContext& context) {
  if (context.inputs.size() != 1) refuse("cast", "one value", context.inputs);
  return {{context.inputs[0].shape, context.attributes.as<ops::CastAttributes>().dtype}};
}

std::vector<SymbolicTensor> cast_gradient(const GradientContext& context) {
  const DType dtype = context.inputs[0].dtype();
  if (!is_floating(dtype) || !is_floating(context.outputs[0].dtype())) return {SymbolicTensor()};
  return {ops::cast(context.output_gradients[0], dtype)};
}

std::vector<TensorType> infer_rescale(const InferContext& context) {
  if (context.inputs.size() != 1 || context.inputs[0].dtype == boolean) {
    refuse("rescale", "one value of a number type", context.inputs);
  }
  const TensorType& x = context.inputs[0];
  return {{x.shape, is_floating(x.dtype) ? x.dtype : float32}};
}

std::vector<SymbolicTensor> rescale_gradient(const GradientContext& context) {
  const DType dtype = context.inputs[0].dtype();
  if (!is_floating(dtype)) return {SymbolicTensor()};
  const double scale = context.attributes.as<ops::RescaleAttributes>().scale;
  return {ops::cast(ops::rescale(context.output_gradients[0], scale), dtype)};
}

}  // namespace

void register_cast_ops(OpRegistry& registry) {
  registry.add({.name = "cast",
                .infer = infer_cast,
                .autocast = AutocastRule::kKeep,
                .gradient = cast_gradient,
                .reusable_inputs = {0},
                .elementwise_linear = true});
  registry.add({.name = "rescale",
                .infer = infer_rescale,
                .autocast = AutocastRule::kLowPrecision,
                .gradient = rescale_gradient,
                .reusable_inputs = {0},
                .store = StoreRule::kAnyFloating});
}

}  // namespace ir
}  // namespace demi
