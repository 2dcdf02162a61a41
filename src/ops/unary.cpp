#include <demi/ops/unary.h>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>

#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

SymbolicTensor negative(const SymbolicTensor& x) {
  return ir::emit("negative", {x});
}
SymbolicTensor abs(const SymbolicTensor& x) {
  return ir::emit("abs", {x});
}
SymbolicTensor square(const SymbolicTensor& x) {
  return ir::emit("square", {x});
}
SymbolicTensor reciprocal(const SymbolicTensor& x) {
  return ir::emit("reciprocal", {x});
}
SymbolicTensor sign(const SymbolicTensor& x) {
  return ir::emit("sign", {x});
}
SymbolicTensor exp(const SymbolicTensor& x) {
  return ir::emit("exp", {x});
}
SymbolicTensor log(const SymbolicTensor& x) {
  return ir::emit("log", {x});
}
SymbolicTensor sqrt(const SymbolicTensor& x) {
  return ir::emit("sqrt", {x});
}
SymbolicTensor softplus(const SymbolicTensor& x) {
  return ir::emit("softplus", {x});
}
SymbolicTensor relu(const SymbolicTensor& x) {
  return ir::emit("relu", {x});
}
SymbolicTensor sigmoid(const SymbolicTensor& x) {
  return ir::emit("sigmoid", {x});
}
SymbolicTensor tanh(const SymbolicTensor& x) {
  return ir::emit("tanh", {x});
}
SymbolicTensor gelu(const SymbolicTensor& x) {
  return ir::emit("gelu", {x});
}
SymbolicTensor relu_backward(const SymbolicTensor& dy, const SymbolicTensor& y) {
  return ir::emit("relu_backward", {dy, y});
}
SymbolicTensor sigmoid_backward(const SymbolicTensor& dy, const SymbolicTensor& y) {
  return ir::emit("sigmoid_backward", {dy, y});
}
SymbolicTensor tanh_backward(const SymbolicTensor& dy, const SymbolicTensor& y) {
  return ir::emit("tanh_backward", {dy, y});
}
SymbolicTensor gelu_backward(const SymbolicTensor& dy, const SymbolicTensor& x) {
  return ir::emit("gelu_backward", {dy, x});
}

}  // namespace ops

namespace ir {
namespace {

using Gradients = std::vector<SymbolicTensor>;

// ---- Types ----------------------------------------------------------------------------------

template <const char* kOp>
std::vector<TensorType> infer_number(const InferContext& context) {
  if (context.inputs.size() != 1 || context.inputs[0].dtype == boolean) {
    refuse(kOp, "one value of a number type", context.inputs);
  }
  return {context.inputs[0]};
}

template <const char* kOp>
std::vector<TensorType> infer_floating(const InferContext& context) {
  if (context.inputs.size() != 1 || !is_floating(context.inputs[0].dtype)) {
    refuse(kOp, "one floating value", context.inputs);
  }
  return {context.inputs[0]};
}

template <const char* kOp>
std::vector<TensorType> infer_wide(const InferContext& context) {
  const TensorType x = infer_floating<kOp>(context)[0];
  return {{x.shape, promote(x.dtype, float32)}};
}

template <const char* kOp>
std::vector<TensorType> infer_backward(const InferContext& context) {
  const auto inputs = context.inputs;
  if (inputs.size() != 2 || inputs[0].shape != inputs[1].shape || !is_floating(inputs[0].dtype) ||
      !is_floating(inputs[1].dtype)) {
    refuse(kOp, "two floating values of one shape", inputs);
  }
  return {{inputs[0].shape, promote(inputs[0].dtype, inputs[1].dtype)}};
}

// ---- Gradients ------------------------------------------------------------------------------

/// Of an op whose gradient is Slope(dy, x, y).
template <SymbolicTensor (*Slope)(const SymbolicTensor& dy, const SymbolicTensor& x,
                                  const SymbolicTensor& y)>
Gradients gradient(const GradientContext& context) {
  const SymbolicTensor& x = context.inputs[0];
  if (!is_floating(x.dtype())) return {SymbolicTensor()};
  const SymbolicTensor dx = Slope(context.output_gradients[0], x, context.outputs[0]);
  return {ops::cast(dx, x.dtype())};
}

using T = const SymbolicTensor&;

SymbolicTensor negative_slope(T dy, T, T) {
  return ops::negative(dy);
}
SymbolicTensor abs_slope(T dy, T x, T) {
  return ops::multiply(dy, ops::sign(x));
}
SymbolicTensor square_slope(T dy, T x, T) {
  return ops::multiply(dy, ops::multiply(x, 2));
}
SymbolicTensor reciprocal_slope(T dy, T, T y) {
  return ops::negative(ops::multiply(ops::multiply(dy, y), y));
}
SymbolicTensor exp_slope(T dy, T, T y) {
  return ops::multiply(dy, y);
}
SymbolicTensor log_slope(T dy, T x, T) {
  return ops::divide(dy, x);
}
SymbolicTensor sqrt_slope(T dy, T, T y) {
  return ops::divide(ops::multiply(dy, 0.5), y);
}
SymbolicTensor softplus_slope(T dy, T x, T) {
  return ops::multiply(dy, ops::sigmoid(x));
}
SymbolicTensor relu_slope(T dy, T, T y) {
  return ops::relu_backward(dy, y);
}
SymbolicTensor sigmoid_slope(T dy, T, T y) {
  return ops::sigmoid_backward(dy, y);
}
SymbolicTensor tanh_slope(T dy, T, T y) {
  return ops::tanh_backward(dy, y);
}
SymbolicTensor gelu_slope(T dy, T x, T) {
  return ops::gelu_backward(dy, x);
}

// ---- Registration ---------------------------------------------------------------------------

using Infer = std::vector<TensorType> (*)(const InferContext&);
using Gradient = Gradients (*)(const GradientContext&);

constexpr char kNegative[] = "negative";
constexpr char kAbs[] = "abs";
constexpr char kSquare[] = "square";
constexpr char kReciprocal[] = "reciprocal";
constexpr char kSign[] = "sign";
constexpr char kExp[] = "exp";
constexpr char kLog[] = "log";
constexpr char kSqrt[] = "sqrt";
constexpr char kSoftplus[] = "softplus";
constexpr char kRelu[] = "relu";
constexpr char kSigmoid[] = "sigmoid";
constexpr char kTanh[] = "tanh";
constexpr char kGelu[] = "gelu";
constexpr char kReluBackward[] = "relu_backward";
constexpr char kSigmoidBackward[] = "sigmoid_backward";
constexpr char kTanhBackward[] = "tanh_backward";
constexpr char kGeluBackward[] = "gelu_backward";

OpDef unary(const char* name, Infer infer, Gradient gradient) {
  return {.name = name, .infer = infer, .gradient = gradient, .reusable_inputs = {0}};
}

/// What leaves the range of float16 too easily to be computed on float16 values by default.
OpDef wide(const char* name, Infer infer, Gradient gradient) {
  OpDef op = unary(name, infer, gradient);
  op.autocast = AutocastRule::kFloat32;
  return op;
}

OpDef backward(const char* name, Infer infer) {
  return {.name = name, .infer = infer, .reusable_inputs = {0, 1}};
}

}  // namespace

void register_unary_ops(OpRegistry& registry) {
  registry.add(unary(kNegative, infer_number<kNegative>, gradient<negative_slope>));
  registry.add(unary(kAbs, infer_number<kAbs>, gradient<abs_slope>));
  registry.add(wide(kSquare, infer_number<kSquare>, gradient<square_slope>));
  registry.add(wide(kReciprocal, infer_floating<kReciprocal>, gradient<reciprocal_slope>));
  registry.add(unary(kSign, infer_number<kSign>, nullptr));
  registry.add(wide(kExp, infer_wide<kExp>, gradient<exp_slope>));
  registry.add(wide(kLog, infer_wide<kLog>, gradient<log_slope>));
  registry.add(wide(kSqrt, infer_wide<kSqrt>, gradient<sqrt_slope>));
  registry.add(wide(kSoftplus, infer_wide<kSoftplus>, gradient<softplus_slope>));
  registry.add(unary(kRelu, infer_number<kRelu>, gradient<relu_slope>));
  registry.add(unary(kSigmoid, infer_floating<kSigmoid>, gradient<sigmoid_slope>));
  registry.add(unary(kTanh, infer_floating<kTanh>, gradient<tanh_slope>));
  registry.add(unary(kGelu, infer_floating<kGelu>, gradient<gelu_slope>));
  registry.add(backward(kReluBackward, infer_backward<kReluBackward>));
  registry.add(backward(kSigmoidBackward, infer_backward<kSigmoidBackward>));
  registry.add(backward(kTanhBackward, infer_backward<kTanhBackward>));
  registry.add(backward(kGeluBackward, infer_backward<kGeluBackward>));
}

}  // namespace ir
}  // namespace demi
