#include <demi/ops/binary.h>

#include <cmath>

#include <demi/ops/cast.h>
#include <demi/ops/unary.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/builtin_ops.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {
namespace {

/// The scalar `value` as an operand beside `x`.
SymbolicTensor number(const char* op, double value, const SymbolicTensor& x) {
  if (!x) internal::fail_argument(op, "expected a value. Received: an empty SymbolicTensor.");
  if (!is_floating(x.dtype()) && value != std::trunc(value)) {
    internal::fail_argument(op, fmt::format("expected a whole number beside {}{}. Received: {}.",
                                            to_string(x.dtype()), x.shape().to_string(), value));
  }
  return ir::emit_constant(x, value, x.dtype());
}

}  // namespace

std::string describe(const BroadcastAttributes& attributes) {
  return fmt::format("shape={}", attributes.shape.to_string());
}

SymbolicTensor add(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("add", {a, b});
}
SymbolicTensor subtract(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("subtract", {a, b});
}
SymbolicTensor multiply(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("multiply", {a, b});
}
SymbolicTensor divide(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("divide", {a, b});
}
SymbolicTensor maximum(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("maximum", {a, b});
}
SymbolicTensor minimum(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("minimum", {a, b});
}
SymbolicTensor power(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("power", {a, b});
}
SymbolicTensor equal(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("equal", {a, b});
}
SymbolicTensor greater(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("greater", {a, b});
}
SymbolicTensor greater_equal(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ir::emit("greater_equal", {a, b});
}
SymbolicTensor where(const SymbolicTensor& condition, const SymbolicTensor& a,
                     const SymbolicTensor& b) {
  return ir::emit("where", {condition, a, b});
}
SymbolicTensor broadcast_to(const SymbolicTensor& x, const Shape& shape) {
  return ir::emit("broadcast_to", {x}, BroadcastAttributes{shape});
}
SymbolicTensor sum_to(const SymbolicTensor& x, const Shape& shape) {
  return ir::emit("sum_to", {x}, BroadcastAttributes{shape});
}

SymbolicTensor add(const SymbolicTensor& a, double b) {
  return add(a, number("add", b, a));
}
SymbolicTensor subtract(const SymbolicTensor& a, double b) {
  return subtract(a, number("subtract", b, a));
}
SymbolicTensor subtract(double a, const SymbolicTensor& b) {
  return subtract(number("subtract", a, b), b);
}
SymbolicTensor multiply(const SymbolicTensor& a, double b) {
  return multiply(a, number("multiply", b, a));
}
SymbolicTensor divide(const SymbolicTensor& a, double b) {
  return divide(a, number("divide", b, a));
}
SymbolicTensor divide(double a, const SymbolicTensor& b) {
  return divide(number("divide", a, b), b);
}
SymbolicTensor maximum(const SymbolicTensor& a, double b) {
  return maximum(a, number("maximum", b, a));
}
SymbolicTensor minimum(const SymbolicTensor& a, double b) {
  return minimum(a, number("minimum", b, a));
}
SymbolicTensor power(const SymbolicTensor& a, double b) {
  return power(a, number("power", b, a));
}

}  // namespace ops

namespace ir {
namespace {

using Gradients = std::vector<SymbolicTensor>;

// ---- Types ----------------------------------------------------------------------------------

TensorType infer_pair(const char* op, const InferContext& context) {
  if (context.inputs.size() != 2) refuse(op, "two values", context.inputs);
  const TensorType& a = context.inputs[0];
  const TensorType& b = context.inputs[1];
  return {broadcast(a.shape, b.shape, op), promote(a.dtype, b.dtype)};
}

template <const char* kOp>
std::vector<TensorType> infer_arithmetic(const InferContext& context) {
  return {infer_pair(kOp, context)};
}

template <const char* kOp>
std::vector<TensorType> infer_comparison(const InferContext& context) {
  return {{infer_pair(kOp, context).shape, boolean}};
}

std::vector<TensorType> infer_divide(const InferContext& context) {
  const TensorType result = infer_pair("divide", context);
  if (!is_floating(result.dtype)) refuse("divide", "a floating value", context.inputs);
  return {result};
}

std::vector<TensorType> infer_power(const InferContext& context) {
  const TensorType result = infer_pair("power", context);
  if (!is_floating(result.dtype)) refuse("power", "a floating value", context.inputs);
  return {{result.shape, promote(result.dtype, float32)}};
}

std::vector<TensorType> infer_where(const InferContext& context) {
  if (context.inputs.size() != 3 || context.inputs[0].dtype != boolean) {
    refuse("where", "a bool condition and two values", context.inputs);
  }
  const TensorType& a = context.inputs[1];
  const TensorType& b = context.inputs[2];
  const Shape values = broadcast(a.shape, b.shape, "where");
  return {{broadcast(context.inputs[0].shape, values, "where"), promote(a.dtype, b.dtype)}};
}

/// Whether `from` broadcasts to exactly `to`.
bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int axis = -1; axis >= -from.rank(); --axis) {
    if (from[axis] != 1 && from[axis] != to[axis]) return false;
  }
  return true;
}

std::vector<TensorType> infer_broadcast_to(const InferContext& context) {
  const Shape& shape = context.attributes.as<ops::BroadcastAttributes>().shape;
  if (context.inputs.size() != 1 || !broadcasts_to(context.inputs[0].shape, shape)) {
    refuse("broadcast_to", "one value that broadcasts to " + shape.to_string(), context.inputs);
  }
  return {{shape, context.inputs[0].dtype}};
}

std::vector<TensorType> infer_sum_to(const InferContext& context) {
  const Shape& shape = context.attributes.as<ops::BroadcastAttributes>().shape;
  if (context.inputs.size() != 1 || !is_floating(context.inputs[0].dtype) ||
      !broadcasts_to(shape, context.inputs[0].shape)) {
    refuse("sum_to", "one floating value to whose shape " + shape.to_string() + " broadcasts",
           context.inputs);
  }
  return {{shape, context.inputs[0].dtype}};
}

// ---- Gradients ------------------------------------------------------------------------------

bool wants(const GradientContext& context, std::size_t input) {
  return context.needed[input] && is_floating(context.inputs[input].dtype());
}

/// `gradient` as that of `input`, which was broadcast and promoted.
SymbolicTensor returned_to(const SymbolicTensor& input, SymbolicTensor gradient) {
  if (gradient.shape() != input.shape()) gradient = ops::sum_to(gradient, input.shape());
  return ops::cast(gradient, input.dtype());
}

SymbolicTensor zero_like(const SymbolicTensor& x) {
  return emit_constant(x, 0, x.dtype());
}

Gradients add_gradient(const GradientContext& context) {
  const SymbolicTensor& dy = context.output_gradients[0];
  Gradients result(2);
  for (std::size_t i = 0; i < 2; ++i) {
    if (wants(context, i)) result[i] = returned_to(context.inputs[i], dy);
  }
  return result;
}

Gradients subtract_gradient(const GradientContext& context) {
  Gradients result = add_gradient(context);
  if (result[1]) result[1] = ops::negative(result[1]);
  return result;
}

Gradients multiply_gradient(const GradientContext& context) {
  const SymbolicTensor& dy = context.output_gradients[0];
  Gradients result(2);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!wants(context, i)) continue;
    result[i] = returned_to(context.inputs[i], ops::multiply(dy, context.inputs[1 - i]));
  }
  return result;
}

Gradients divide_gradient(const GradientContext& context) {
  const SymbolicTensor da = ops::divide(context.output_gradients[0], context.inputs[1]);
  Gradients result(2);
  if (wants(context, 0)) result[0] = returned_to(context.inputs[0], da);
  if (wants(context, 1)) {
    const SymbolicTensor& b = context.inputs[1];
    result[1] = ops::negative(returned_to(b, ops::multiply(da, context.outputs[0])));
  }
  return result;
}

/// Of maximum and minimum: the gradient goes to the input that is the output, half on a tie.
Gradients selection_gradient(const GradientContext& context) {
  const SymbolicTensor& a = context.inputs[0];
  const SymbolicTensor& b = context.inputs[1];
  const SymbolicTensor& y = context.outputs[0];
  const SymbolicTensor& dy = context.output_gradients[0];
  const SymbolicTensor share = ops::where(ops::equal(a, b), ops::multiply(dy, 0.5), dy);
  Gradients result(2);
  for (std::size_t i = 0; i < 2; ++i) {
    const SymbolicTensor& x = context.inputs[i];
    if (!wants(context, i)) continue;
    result[i] = returned_to(x, ops::where(ops::equal(x, y), share, zero_like(dy)));
  }
  return result;
}

/// d a^b / d a = b · a^(b-1), and 0 where b is 0, also at a = 0.
SymbolicTensor power_slope(const SymbolicTensor& a, const SymbolicTensor& b) {
  const Node& exponent = producer(b);
  if (exponent.op->name == "constant") {
    const double value = exponent.attributes.as<ConstantAttributes>().value;
    if (value == 2) return ops::multiply(a, 2);
    if (value != 0) return ops::multiply(ops::power(a, value - 1), value);
  }
  const SymbolicTensor slope = ops::multiply(b, ops::power(a, ops::subtract(b, 1)));
  return ops::where(ops::equal(b, zero_like(b)), zero_like(slope), slope);
}

Gradients power_gradient(const GradientContext& context) {
  const SymbolicTensor& a = context.inputs[0];
  const SymbolicTensor& b = context.inputs[1];
  const SymbolicTensor& dy = context.output_gradients[0];
  Gradients result(2);
  if (wants(context, 0)) result[0] = returned_to(a, ops::multiply(dy, power_slope(a, b)));
  if (wants(context, 1)) {
    const SymbolicTensor db = ops::multiply(ops::multiply(dy, context.outputs[0]), ops::log(a));
    result[1] = returned_to(b, ops::where(ops::greater(a, zero_like(a)), db, zero_like(db)));
  }
  return result;
}

Gradients where_gradient(const GradientContext& context) {
  const SymbolicTensor& condition = context.inputs[0];
  const SymbolicTensor& dy = context.output_gradients[0];
  Gradients result(3);
  for (std::size_t i = 1; i < 3; ++i) {
    if (!wants(context, i)) continue;
    const SymbolicTensor zero = zero_like(dy);
    result[i] = returned_to(context.inputs[i], i == 1 ? ops::where(condition, dy, zero)
                                                      : ops::where(condition, zero, dy));
  }
  return result;
}

Gradients broadcast_to_gradient(const GradientContext& context) {
  return {ops::sum_to(context.output_gradients[0], context.inputs[0].shape())};
}

Gradients sum_to_gradient(const GradientContext& context) {
  const SymbolicTensor& x = context.inputs[0];
  return {ops::broadcast_to(ops::cast(context.output_gradients[0], x.dtype()), x.shape())};
}

// ---- Registration ---------------------------------------------------------------------------

constexpr char kAdd[] = "add";
constexpr char kSubtract[] = "subtract";
constexpr char kMultiply[] = "multiply";
constexpr char kMaximum[] = "maximum";
constexpr char kMinimum[] = "minimum";
constexpr char kEqual[] = "equal";
constexpr char kGreater[] = "greater";
constexpr char kGreaterEqual[] = "greater_equal";

OpDef arithmetic(const char* name, std::vector<TensorType> (*infer)(const InferContext&),
                 Gradients (*gradient)(const GradientContext&)) {
  return {.name = name, .infer = infer, .gradient = gradient, .reusable_inputs = {0, 1}};
}

}  // namespace

void register_binary_ops(OpRegistry& registry) {
  registry.add(arithmetic(kAdd, infer_arithmetic<kAdd>, add_gradient));
  registry.add(arithmetic(kSubtract, infer_arithmetic<kSubtract>, subtract_gradient));
  registry.add(arithmetic(kMultiply, infer_arithmetic<kMultiply>, multiply_gradient));
  registry.add(arithmetic("divide", infer_divide, divide_gradient));
  registry.add(arithmetic(kMaximum, infer_arithmetic<kMaximum>, selection_gradient));
  registry.add(arithmetic(kMinimum, infer_arithmetic<kMinimum>, selection_gradient));
  OpDef power = arithmetic("power", infer_power, power_gradient);
  power.autocast = AutocastRule::kFloat32;
  registry.add(power);
  registry.add({.name = kEqual, .infer = infer_comparison<kEqual>});
  registry.add({.name = kGreater, .infer = infer_comparison<kGreater>});
  registry.add({.name = kGreaterEqual, .infer = infer_comparison<kGreaterEqual>});
  registry.add({.name = "where",
                .infer = infer_where,
                .gradient = where_gradient,
                .reusable_inputs = {1, 2}});
  registry.add(
      {.name = "broadcast_to", .infer = infer_broadcast_to, .gradient = broadcast_to_gradient});
  registry.add({.name = "sum_to",
                .infer = infer_sum_to,
                .gradient = sum_to_gradient,
                .store = StoreRule::kAccumulation});
}

}  // namespace ir
}  // namespace demi
