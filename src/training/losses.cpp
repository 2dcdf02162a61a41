#include <demi/losses.h>

#include <array>
#include <string>
#include <string_view>

#include <demi/ops/binary.h>
#include <demi/ops/cross_entropy.h>
#include <demi/ops/unary.h>

#include "src/core/check.h"
#include "src/training/target_shapes.h"

namespace demi {
namespace {

using internal::fail_argument;
using internal::match_labels;
using internal::match_targets;

constexpr std::array<std::string_view, 7> kNames = {SparseCategoricalCrossentropy::kName,
                                                    CategoricalCrossentropy::kName,
                                                    BinaryCrossentropy::kName,
                                                    MeanSquaredError::kName,
                                                    MeanAbsoluteError::kName,
                                                    "mse",
                                                    "mae"};

LossSpec loss_by_name(const std::string& name) {
  if (name == SparseCategoricalCrossentropy::kName) return SparseCategoricalCrossentropy();
  if (name == CategoricalCrossentropy::kName) return CategoricalCrossentropy();
  if (name == BinaryCrossentropy::kName) return BinaryCrossentropy();
  if (name == MeanSquaredError::kName || name == "mse") return MeanSquaredError();
  if (name == MeanAbsoluteError::kName || name == "mae") return MeanAbsoluteError();
  std::string known;
  for (const std::string_view candidate : kNames) {
    known += (known.empty() ? "'" : ", '") + std::string(candidate) + "'";
  }
  fail_argument("loss", "expected one of " + known + ". Received: '" + name + "'." +
                            internal::did_you_mean(name, kNames));
}

/// y · (1 - smoothing) + smoothing / count.
SymbolicTensor smoothed(const SymbolicTensor& targets, double smoothing, double count,
                        const char* where) {
  if (!(smoothing >= 0 && smoothing <= 1)) {
    fail_argument(
        where, "expected label_smoothing in [0, 1]. Received: " + std::to_string(smoothing) + ".");
  }
  if (smoothing == 0) return targets;
  return targets * (1 - smoothing) + smoothing / count;
}

}  // namespace

SymbolicTensor SparseCategoricalCrossentropy::operator()(const SymbolicTensor& y_true,
                                                         const SymbolicTensor& y_pred) const {
  return ops::sparse_categorical_crossentropy(match_labels(y_true, y_pred, kName), y_pred,
                                              from_logits);
}

SymbolicTensor CategoricalCrossentropy::operator()(const SymbolicTensor& y_true,
                                                   const SymbolicTensor& y_pred) const {
  const SymbolicTensor targets = match_targets(y_true, y_pred, kName);
  if (y_pred.shape().rank() < 2) {
    fail_argument(kName, "expected predictions [n, ..., classes]. Received: " +
                             y_pred.shape().to_string() + ".");
  }
  const auto classes = static_cast<double>(y_pred.shape()[-1]);
  return ops::categorical_crossentropy(smoothed(targets, label_smoothing, classes, kName), y_pred,
                                       from_logits);
}

SymbolicTensor BinaryCrossentropy::operator()(const SymbolicTensor& y_true,
                                              const SymbolicTensor& y_pred) const {
  const SymbolicTensor targets = match_targets(y_true, y_pred, kName);
  return ops::binary_crossentropy(smoothed(targets, label_smoothing, 2, kName), y_pred,
                                  from_logits);
}

SymbolicTensor MeanSquaredError::operator()(const SymbolicTensor& y_true,
                                            const SymbolicTensor& y_pred) const {
  return ops::square(match_targets(y_true, y_pred, kName) - y_pred);
}

SymbolicTensor MeanAbsoluteError::operator()(const SymbolicTensor& y_true,
                                             const SymbolicTensor& y_pred) const {
  return ops::abs(match_targets(y_true, y_pred, kName) - y_pred);
}

LossSpec::LossSpec(const std::string& name) : LossSpec(loss_by_name(name)) {}

LossSpec::LossSpec(std::string name, TargetFunction function, TargetKind target)
    : name_(std::move(name)), target_(target), function_(std::move(function)) {}

SymbolicTensor LossSpec::operator()(const SymbolicTensor& y_true,
                                    const SymbolicTensor& y_pred) const {
  if (!function_) fail_argument("loss", "expected a loss. Received: none.");
  SymbolicTensor loss = function_(y_true, y_pred);
  if (!loss || !is_floating(loss.dtype())) {
    fail_argument("loss " + name_, "expected a floating result. Received: " +
                                       (loss ? std::string(to_string(loss.dtype())) : "no value") +
                                       ".");
  }
  return loss;
}

}  // namespace demi
