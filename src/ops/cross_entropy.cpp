#include <demi/ops/cross_entropy.h>

#include <fmt/format.h>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/movement.h>
#include <demi/ops/reduction.h>
#include <demi/ops/softmax.h>
#include <demi/ops/unary.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const CrossEntropyAttributes& attributes) {
  return fmt::format("from_logits={}", attributes.from_logits);
}

std::string describe(const MeanSparseCrossEntropyAttributes& attributes) {
  using Accuracy = MeanSparseCrossEntropyAttributes::Accuracy;
  std::string text = "from_logits=true";
  if (attributes.accuracy == Accuracy::kOfScores) text += ", accuracy";
  if (attributes.accuracy == Accuracy::kOfSoftmax) text += ", accuracy of softmax";
  if (attributes.has_gradient) {
    text += fmt::format(", gradient={}, divisor={}", to_string(attributes.gradient_dtype),
                        attributes.divisor);
  }
  return text;
}

SymbolicTensor sparse_categorical_crossentropy(const SymbolicTensor& labels,
                                               const SymbolicTensor& scores, bool from_logits) {
  return ir::emit("sparse_cross_entropy", {scores, labels}, CrossEntropyAttributes{from_logits});
}

SymbolicTensor categorical_crossentropy(const SymbolicTensor& targets, const SymbolicTensor& scores,
                                        bool from_logits) {
  return ir::emit("cross_entropy", {scores, targets}, CrossEntropyAttributes{from_logits});
}

SymbolicTensor binary_crossentropy(const SymbolicTensor& targets, const SymbolicTensor& scores,
                                   bool from_logits) {
  return mean(
      ir::emit("binary_cross_entropy", {scores, targets}, CrossEntropyAttributes{from_logits}),
      {-1});
}

}  // namespace ops

namespace ir {
namespace {

using ops::CrossEntropyAttributes;

/// Whether the extents agree; an unknown one agrees with any.
bool compatible(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int axis = 0; axis < a.rank(); ++axis) {
    if (a[axis] != b[axis] && a[axis] != Shape::kUnknown && b[axis] != Shape::kUnknown)
      return false;
  }
  return true;
}

Shape without_last(const Shape& shape) {
  return Shape(shape.dims().first(shape.dims().size() - 1));
}

/// Checks scores and targets, which are the last two inputs of forward and backward ops alike.
/// Returns the shape of the loss.
Shape check_sparse(const char* op, const InferContext& context) {
  const TensorType& scores = context.inputs[context.inputs.size() - 2];
  const TensorType& labels = context.inputs[context.inputs.size() - 1];
  constexpr const char* kExpected = "scores [n, ..., classes] and integer labels [n, ...]";
  const bool integers = labels.dtype == DType::kInt32 || labels.dtype == DType::kInt64 ||
                        labels.dtype == DType::kUint8;
  if (!is_floating(scores.dtype) || scores.shape.rank() < 1 || !integers) {
    refuse(op, kExpected, context.inputs);
  }
  const Shape loss = without_last(scores.shape);
  const bool column = labels.shape.rank() == scores.shape.rank() && labels.shape[-1] == 1;
  if (!compatible(loss, column ? without_last(labels.shape) : labels.shape)) {
    refuse(op, kExpected, context.inputs);
  }
  return loss;
}

Shape check_dense(const char* op, const InferContext& context) {
  const TensorType& scores = context.inputs[context.inputs.size() - 2];
  const TensorType& targets = context.inputs[context.inputs.size() - 1];
  if (!is_floating(scores.dtype) || scores.shape.rank() < 1 ||
      !compatible(scores.shape, targets.shape)) {
    refuse(op, "scores [n, ..., classes] and targets of the same shape", context.inputs);
  }
  return without_last(scores.shape);
}

Shape check_binary(const char* op, const InferContext& context) {
  const TensorType& scores = context.inputs[context.inputs.size() - 2];
  const TensorType& targets = context.inputs[context.inputs.size() - 1];
  if (!is_floating(scores.dtype) || !compatible(scores.shape, targets.shape)) {
    refuse(op, "scores and targets of one shape", context.inputs);
  }
  return scores.shape;
}

using Check = Shape (*)(const char* op, const InferContext& context);

template <const char* kName, Check kCheck>
std::vector<TensorType> infer_loss(const InferContext& context) {
  return {{kCheck(kName, context), accumulation_dtype(context.inputs[0].dtype)}};
}

/// Inputs: dloss, scores, targets.
template <const char* kName, Check kCheck>
std::vector<TensorType> infer_backward(const InferContext& context) {
  const Shape loss = kCheck(kName, context);
  const TensorType& dloss = context.inputs[0];
  const TensorType& scores = context.inputs[1];
  if (!is_floating(dloss.dtype) || !compatible(loss, dloss.shape)) {
    refuse(kName, "the gradient of the loss, scores and targets", context.inputs);
  }
  return {{scores.shape, accumulation_dtype(scores.dtype)}};
}

/// Inputs: scores, labels, and with a gradient that of the mean.
std::vector<TensorType> infer_mean_sparse(const InferContext& context) {
  using Attributes = ops::MeanSparseCrossEntropyAttributes;
  const auto& attributes = context.attributes.as<Attributes>();
  DEMI_CHECK(context.inputs.size() == (attributes.has_gradient ? 3 : 2),
             "mean_sparse_cross_entropy takes the gradient of the mean and only with a gradient");
  const InferContext rows{context.inputs.first(2), context.attributes};
  const Shape losses = check_sparse("mean_sparse_cross_entropy", rows);
  const TensorType& scores = context.inputs[0];
  DEMI_CHECK(losses.rank() == 1 && accumulation_dtype(scores.dtype) == float32,
             "mean_sparse_cross_entropy takes scores [n, classes] that are computed in float32");
  std::vector<TensorType> types = {{{}, float32}};
  if (attributes.accuracy != Attributes::Accuracy::kNone) types.push_back({{}, float32});
  if (attributes.has_gradient) {
    DEMI_CHECK(context.inputs[2].dtype == float32 && context.inputs[2].shape.elements() == 1,
               "the gradient of a mean is one float32 number");
    types.push_back({scores.shape, attributes.gradient_dtype});
  }
  return types;
}

// Loss and gradient as values of the graph, for targets that somebody differentiates: soft labels
// made by another network.

SymbolicTensor clipped(const SymbolicTensor& p) {
  return ops::minimum(ops::maximum(p, 1e-7), 1 - 1e-7);
}

/// d loss / d targets = -log(probability).
SymbolicTensor dense_target_gradient(const SymbolicTensor& dloss, const SymbolicTensor& scores,
                                     bool from_logits) {
  Shape column = scores.shape();
  column.set(-1, 1);
  const SymbolicTensor log_probability =
      from_logits ? ops::log_softmax(scores)
                  : ops::log(clipped(ops::divide(scores, ops::sum(scores, {-1}, true))));
  return ops::negative(ops::multiply(ops::reshape(dloss, column), log_probability));
}

/// d loss / d target = log(1 - p) - log(p), which is -z for p = sigmoid(z).
SymbolicTensor binary_target_gradient(const SymbolicTensor& dloss, const SymbolicTensor& scores,
                                      bool from_logits) {
  if (from_logits) return ops::negative(ops::multiply(dloss, scores));
  const SymbolicTensor p = clipped(scores);
  return ops::multiply(dloss, ops::subtract(ops::log(ops::subtract(1, p)), ops::log(p)));
}

using TargetGradient = SymbolicTensor (*)(const SymbolicTensor& dloss, const SymbolicTensor& scores,
                                          bool from_logits);

template <const char* kBackward, TargetGradient kTargetGradient>
std::vector<SymbolicTensor> gradient(const GradientContext& context) {
  const SymbolicTensor& dloss = context.output_gradients[0];
  const SymbolicTensor& scores = context.inputs[0];
  const SymbolicTensor& targets = context.inputs[1];
  std::vector<SymbolicTensor> gradients(2);
  if (context.needed[0]) {
    const SymbolicTensor dscores = emit(kBackward, {dloss, scores, targets}, context.attributes);
    gradients[0] = ops::cast(dscores, scores.dtype());
  }
  if constexpr (kTargetGradient != nullptr) {
    if (context.needed[1] && is_floating(targets.dtype())) {
      const SymbolicTensor wide = ops::cast(scores, context.outputs[0].dtype());
      const bool from_logits = context.attributes.as<CrossEntropyAttributes>().from_logits;
      gradients[1] = ops::cast(kTargetGradient(dloss, wide, from_logits), targets.dtype());
    }
  }
  return gradients;
}

template <const char* kName, const char* kBackward, Check kCheck, TargetGradient kTargetGradient>
void add_loss(OpRegistry& registry) {
  registry.add({.name = kName,
                .infer = infer_loss<kName, kCheck>,
                .autocast = AutocastRule::kFloat32,
                .gradient = gradient<kBackward, kTargetGradient>});
  registry.add({.name = kBackward,
                .infer = infer_backward<kBackward, kCheck>,
                .autocast = AutocastRule::kFloat32,
                .reusable_inputs = {1},
                .store = StoreRule::kAnyFloating});
}

constexpr char kSparse[] = "sparse_cross_entropy";
constexpr char kSparseBackward[] = "sparse_cross_entropy_backward";
constexpr char kDense[] = "cross_entropy";
constexpr char kDenseBackward[] = "cross_entropy_backward";
constexpr char kBinary[] = "binary_cross_entropy";
constexpr char kBinaryBackward[] = "binary_cross_entropy_backward";

}  // namespace

void register_cross_entropy_ops(OpRegistry& registry) {
  add_loss<kSparse, kSparseBackward, check_sparse, nullptr>(registry);
  registry.add({.name = "mean_sparse_cross_entropy",
                .infer = infer_mean_sparse,
                .autocast = AutocastRule::kKeep});
  add_loss<kDense, kDenseBackward, check_dense, dense_target_gradient>(registry);
  add_loss<kBinary, kBinaryBackward, check_binary, binary_target_gradient>(registry);
}

}  // namespace ir
}  // namespace demi
