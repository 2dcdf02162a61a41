// Cross-entropy losses, one value per row, always computed in float32 (float64 for float64).
#pragma once

#include <cstdint>
#include <string>

#include <demi/dtype.h>
#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct CrossEntropyAttributes {
  /// The scores are logits; otherwise they are probabilities. As in Keras those of a row are
  /// divided by their sum (not in the binary loss), then clipped to [1e-7, 1 - 1e-7] in float32;
  /// where that changes one, no gradient passes.
  bool from_logits = false;
  friend bool operator==(const CrossEntropyAttributes&, const CrossEntropyAttributes&) = default;
};
std::string describe(const CrossEntropyAttributes& attributes);

/// labels: integers [n, ...] (or [n, ..., 1]) in [0, classes); scores [n, ..., classes] -> float32
/// [n, ...]. Labels are never converted to a floating dtype. A label out of range makes its loss
/// NaN and raises the training error (the data set checks labels before training). IR:
/// sparse_cross_entropy(scores, labels). From logits: loss = logsumexp(z) - z[label], its gradient
/// softmax(z) - onehot(label). The fuse pass turns probabilities that come straight from a softmax
/// into logits.
[[nodiscard]] SymbolicTensor sparse_categorical_crossentropy(const SymbolicTensor& labels,
                                                             const SymbolicTensor& scores,
                                                             bool from_logits = false);

/// Attributes of mean_sparse_cross_entropy(scores, labels, [dmean]) -> mean, [accuracy],
/// [gradient], which only the fuse pass writes: what a training step needs of logits [n, classes].
///   mean = mean(sparse_cross_entropy(scores, labels)), float32, from logits
///   accuracy = mean(argmax(p) == label), float32; p are the scores or their softmax
///   gradient = d loss / d scores for d loss / d mean = dmean / divisor
struct MeanSparseCrossEntropyAttributes {
  enum class Accuracy : std::int64_t { kNone, kOfScores, kOfSoftmax };
  Accuracy accuracy = Accuracy::kNone;
  bool has_gradient = false;
  DType gradient_dtype = DType::kFloat32;
  double divisor = 1;  ///< in float32
  friend bool operator==(const MeanSparseCrossEntropyAttributes&,
                         const MeanSparseCrossEntropyAttributes&) = default;
};
std::string describe(const MeanSparseCrossEntropyAttributes& attributes);

/// targets: probabilities like scores. IR: cross_entropy(scores, targets).
[[nodiscard]] SymbolicTensor categorical_crossentropy(const SymbolicTensor& targets,
                                                      const SymbolicTensor& scores,
                                                      bool from_logits = false);

/// Elementwise: from logits max(z, 0) - z · t + log(1 + exp(-|z|)). The mean over the last axis ->
/// [n, ...] without it. IR: binary_cross_entropy(scores, targets), elementwise.
[[nodiscard]] SymbolicTensor binary_crossentropy(const SymbolicTensor& targets,
                                                 const SymbolicTensor& scores,
                                                 bool from_logits = false);

}  // namespace demi::ops
