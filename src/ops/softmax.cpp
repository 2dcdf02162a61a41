#include <demi/ops/softmax.h>

#include <fmt/format.h>

#include <demi/ops/cast.h>

#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const SoftmaxAttributes& attributes) {
  return fmt::format("axis={}", attributes.axis);
}

SymbolicTensor softmax(const SymbolicTensor& x, int axis) {
  return ir::emit("softmax", {x}, SoftmaxAttributes{axis});
}

SymbolicTensor log_softmax(const SymbolicTensor& x, int axis) {
  return ir::emit("log_softmax", {x}, SoftmaxAttributes{axis});
}

}  // namespace ops

namespace ir {
namespace {

void check_axis(const char* op, const TensorType& x, const Attributes& attributes) {
  const int axis = attributes.as<ops::SoftmaxAttributes>().axis;
  const int rank = x.shape.rank();
  if (!is_floating(x.dtype) || axis < -rank || axis >= rank) {
    refuse(op, fmt::format("a floating tensor that has axis {}", axis), {&x, 1});
  }
}

template <const char* kName>
std::vector<TensorType> infer_forward(const InferContext& context) {
  const TensorType& x = context.inputs[0];
  check_axis(kName, x, context.attributes);
  return {{x.shape, accumulation_dtype(x.dtype)}};
}

template <const char* kName>
std::vector<TensorType> infer_backward(const InferContext& context) {
  const TensorType& dy = context.inputs[0];
  const TensorType& y = context.inputs[1];
  check_axis(kName, y, context.attributes);
  if (!is_floating(dy.dtype) || dy.shape != y.shape) {
    refuse(kName, "dy like y", context.inputs);
  }
  return {{y.shape, accumulation_dtype(promote(dy.dtype, y.dtype))}};
}

template <const char* kBackward>
std::vector<SymbolicTensor> gradient(const GradientContext& context) {
  const SymbolicTensor dx =
      emit(kBackward, {context.output_gradients[0], context.outputs[0]}, context.attributes);
  return {ops::cast(dx, context.inputs[0].dtype())};
}

template <const char* kName, const char* kBackward>
void add_family(OpRegistry& registry) {
  registry.add({.name = kName,
                .infer = infer_forward<kName>,
                .autocast = AutocastRule::kFloat32,
                .gradient = gradient<kBackward>,
                .reusable_inputs = {0},
                .store = StoreRule::kAnyFloating});
  registry.add({.name = kBackward,
                .infer = infer_backward<kBackward>,
                .autocast = AutocastRule::kFloat32,
                .reusable_inputs = {0, 1},
                .store = StoreRule::kAnyFloating});
}

constexpr char kSoftmax[] = "softmax";
constexpr char kSoftmaxBackward[] = "softmax_backward";
constexpr char kLogSoftmax[] = "log_softmax";
constexpr char kLogSoftmaxBackward[] = "log_softmax_backward";

}  // namespace

void register_softmax_ops(OpRegistry& registry) {
  add_family<kSoftmax, kSoftmaxBackward>(registry);
  add_family<kLogSoftmax, kLogSoftmaxBackward>(registry);
}

}  // namespace ir
}  // namespace demi
