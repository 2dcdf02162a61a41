#include <demi/ops/reduction.h>

#include <algorithm>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/movement.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {
namespace {

SymbolicTensor reduce(const char* op, const SymbolicTensor& x, std::vector<int> axes,
                      bool keepdims) {
  if (!x) internal::fail_argument(op, "expected a value. Received: an empty SymbolicTensor.");
  const Shape& shape = x.shape();
  const std::vector<int> given = axes;
  if (axes.empty()) {
    for (int axis = 0; axis < shape.rank(); ++axis) axes.push_back(axis);
  }
  for (int& axis : axes) {
    if (axis < -shape.rank() || axis >= shape.rank()) {
      internal::fail_argument(op,
                              fmt::format("expected axes of a value of shape {}. Received: [{}].",
                                          shape.to_string(), fmt::join(given, ", ")));
    }
    axis = shape.normalize_axis(axis);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    internal::fail_argument(
        op, fmt::format("expected distinct axes. Received: [{}].", fmt::join(given, ", ")));
  }
  return ir::emit(op, {x}, ReductionAttributes{std::move(axes), keepdims});
}

}  // namespace

std::string describe(const ReductionAttributes& attributes) {
  return fmt::format("axes=[{}], keepdims={}", fmt::join(attributes.axes, ", "),
                     attributes.keepdims);
}

SymbolicTensor sum(const SymbolicTensor& x, std::vector<int> axes, bool keepdims) {
  return reduce("sum", x, std::move(axes), keepdims);
}
SymbolicTensor mean(const SymbolicTensor& x, std::vector<int> axes, bool keepdims) {
  return reduce("mean", x, std::move(axes), keepdims);
}
SymbolicTensor max(const SymbolicTensor& x, std::vector<int> axes, bool keepdims) {
  return reduce("max", x, std::move(axes), keepdims);
}
SymbolicTensor argmax(const SymbolicTensor& x, int axis) {
  return reduce("argmax", x, {axis}, false);
}

}  // namespace ops

namespace ir {
namespace {

using Gradients = std::vector<SymbolicTensor>;
using ops::ReductionAttributes;

// ---- Types ----------------------------------------------------------------------------------

bool is_reduced(const ReductionAttributes& attributes, int axis) {
  return std::binary_search(attributes.axes.begin(), attributes.axes.end(), axis);
}

Shape reduced_shape(const Shape& shape, const ReductionAttributes& attributes, bool keepdims) {
  std::vector<std::int64_t> extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!is_reduced(attributes, axis)) {
      extents.push_back(shape[axis]);
    } else if (keepdims) {
      extents.push_back(1);
    }
  }
  return Shape(extents);
}

Shape infer_shape(const char* op, const InferContext& context) {
  const auto& attributes = context.attributes.as<ReductionAttributes>();
  if (context.inputs.size() != 1 ||
      (!attributes.axes.empty() && attributes.axes.back() >= context.inputs[0].shape.rank())) {
    refuse(op, fmt::format("one value with axes [{}]", fmt::join(attributes.axes, ", ")),
           context.inputs);
  }
  return reduced_shape(context.inputs[0].shape, attributes, attributes.keepdims);
}

std::vector<TensorType> infer_sum(const InferContext& context) {
  const Shape shape = infer_shape("sum", context);
  return {{shape, accumulation_dtype(context.inputs[0].dtype)}};
}

std::vector<TensorType> infer_mean(const InferContext& context) {
  const Shape shape = infer_shape("mean", context);
  const DType dtype = context.inputs[0].dtype;
  return {{shape, is_floating(dtype) ? dtype : float32}};
}

/// Refuses axes without elements: they have no maximum.
Shape infer_selection_shape(const char* op, const InferContext& context) {
  const Shape shape = infer_shape(op, context);
  for (const int axis : context.attributes.as<ReductionAttributes>().axes) {
    if (context.inputs[0].shape[axis] == 0) {
      refuse(op, fmt::format("at least one element along axis {}", axis), context.inputs);
    }
  }
  return shape;
}

std::vector<TensorType> infer_max(const InferContext& context) {
  return {{infer_selection_shape("max", context), context.inputs[0].dtype}};
}

std::vector<TensorType> infer_argmax(const InferContext& context) {
  const Shape shape = infer_selection_shape("argmax", context);
  if (context.attributes.as<ReductionAttributes>().axes.size() != 1) {
    refuse("argmax", "one axis", context.inputs);
  }
  return {{shape, int32}};
}

// ---- Gradients ------------------------------------------------------------------------------

/// `value`, of the shape of the output, with the reduced axes put back with extent 1.
SymbolicTensor with_unit_axes(const GradientContext& context, const SymbolicTensor& value) {
  const auto& attributes = context.attributes.as<ReductionAttributes>();
  const Shape shape = reduced_shape(context.inputs[0].shape(), attributes, true);
  return value.shape() == shape ? value : ops::reshape(value, shape);
}

Gradients sum_gradient(const GradientContext& context) {
  const SymbolicTensor& x = context.inputs[0];
  if (!is_floating(x.dtype())) return {SymbolicTensor()};
  const SymbolicTensor dy = ops::cast(context.output_gradients[0], x.dtype());
  return {ops::broadcast_to(with_unit_axes(context, dy), x.shape())};
}

/// Elements behind each output, at least 1.
double count_of(const GradientContext& context) {
  double count = 1;
  for (const int axis : context.attributes.as<ReductionAttributes>().axes) {
    count *= static_cast<double>(context.inputs[0].shape()[axis]);
  }
  return std::max(count, 1.0);
}

Gradients mean_gradient(const GradientContext& context) {
  const SymbolicTensor& x = context.inputs[0];
  if (!is_floating(x.dtype())) return {SymbolicTensor()};
  // Divided in float32: float16 has no number of elements from 65520 on, and few exact ones.
  const SymbolicTensor dy = ops::cast(context.output_gradients[0], promote(x.dtype(), float32));
  const SymbolicTensor share = ops::cast(ops::divide(dy, count_of(context)), x.dtype());
  return {ops::broadcast_to(with_unit_axes(context, share), x.shape())};
}

Gradients max_gradient(const GradientContext& context) {
  const SymbolicTensor& x = context.inputs[0];
  if (!is_floating(x.dtype())) return {SymbolicTensor()};
  const SymbolicTensor is_maximum = ops::equal(x, with_unit_axes(context, context.outputs[0]));
  const DType wide = promote(x.dtype(), float32);
  const SymbolicTensor count =
      ops::sum(is_maximum, context.attributes.as<ReductionAttributes>().axes, true);
  const SymbolicTensor dy = with_unit_axes(context, context.output_gradients[0]);
  const SymbolicTensor share = ops::divide(ops::cast(dy, wide), ops::cast(count, wide));
  return {ops::where(is_maximum, ops::cast(share, x.dtype()), emit_constant(x, 0, x.dtype()))};
}

}  // namespace

void register_reduction_ops(OpRegistry& registry) {
  registry.add({.name = "sum",
                .infer = infer_sum,
                .gradient = sum_gradient,
                .store = StoreRule::kAccumulation});
  registry.add({.name = "mean",
                .infer = infer_mean,
                .gradient = mean_gradient,
                .store = StoreRule::kAccumulation});
  registry.add({.name = "max", .infer = infer_max, .gradient = max_gradient});
  registry.add({.name = "argmax", .infer = infer_argmax});
}

}  // namespace ir
}  // namespace demi
