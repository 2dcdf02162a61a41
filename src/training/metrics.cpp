#include <demi/metrics.h>

#include <array>
#include <string>
#include <string_view>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>

#include "src/core/check.h"
#include "src/training/target_shapes.h"

namespace demi {
namespace {

using internal::fail_argument;
using internal::match_labels;
using internal::match_targets;

constexpr std::array<std::string_view, 13> kNames = {Accuracy::kName,
                                                     "acc",
                                                     SparseCategoricalAccuracy::kName,
                                                     CategoricalAccuracy::kName,
                                                     BinaryAccuracy::kName,
                                                     TopKCategoricalAccuracy::kName,
                                                     SparseCategoricalCrossentropy::kName,
                                                     CategoricalCrossentropy::kName,
                                                     BinaryCrossentropy::kName,
                                                     MeanSquaredError::kName,
                                                     MeanAbsoluteError::kName,
                                                     "mse",
                                                     "mae"};

TargetFunction function_by_name(const std::string& name) {
  if (name == Accuracy::kName || name == "acc") return Accuracy();
  if (name == SparseCategoricalAccuracy::kName) return SparseCategoricalAccuracy();
  if (name == CategoricalAccuracy::kName) return CategoricalAccuracy();
  if (name == BinaryAccuracy::kName) return BinaryAccuracy();
  if (name == TopKCategoricalAccuracy::kName) return TopKCategoricalAccuracy();
  std::string known;
  for (const std::string_view candidate : kNames) {
    if (candidate == name) return LossSpec(name);
    known += (known.empty() ? "'" : ", '") + std::string(candidate) + "'";
  }
  fail_argument("metric", "expected one of " + known + ". Received: '" + name + "'." +
                              internal::did_you_mean(name, kNames));
}

/// 1 where x > 0, 0 where x ≤ 0, NaN where x is.
SymbolicTensor is_positive(const SymbolicTensor& x) {
  return ops::relu(ops::sign(x));
}

}  // namespace

SymbolicTensor SparseCategoricalAccuracy::operator()(const SymbolicTensor& y_true,
                                                     const SymbolicTensor& y_pred) const {
  const SymbolicTensor labels = match_labels(y_true, y_pred, kName);
  return ops::cast(ops::equal(ops::argmax(y_pred), labels), y_pred.dtype());
}

SymbolicTensor CategoricalAccuracy::operator()(const SymbolicTensor& y_true,
                                               const SymbolicTensor& y_pred) const {
  const SymbolicTensor targets = match_targets(y_true, y_pred, kName);
  return ops::cast(ops::equal(ops::argmax(targets), ops::argmax(y_pred)), y_pred.dtype());
}

SymbolicTensor BinaryAccuracy::operator()(const SymbolicTensor& y_true,
                                          const SymbolicTensor& y_pred) const {
  const SymbolicTensor targets = match_targets(y_true, y_pred, kName);
  return ops::cast(ops::equal(is_positive(y_pred - threshold), targets), y_pred.dtype());
}

SymbolicTensor TopKCategoricalAccuracy::operator()(const SymbolicTensor& y_true,
                                                   const SymbolicTensor& y_pred) const {
  if (k < 1) fail_argument(kName, "expected k >= 1. Received: " + std::to_string(k) + ".");
  const SymbolicTensor targets = match_targets(y_true, y_pred, kName);
  const SymbolicTensor is_target =
      ops::greater_equal(targets, ops::max(targets, {-1}, /*keepdims=*/true));
  // Selected, not multiplied: a score of -inf elsewhere must not turn the sum into NaN.
  const SymbolicTensor score =
      ops::sum(ops::where(is_target, y_pred, ops::multiply(targets, 0.0)), {-1}, /*keepdims=*/true);
  const SymbolicTensor better =
      ops::sum(ops::cast(ops::greater(y_pred, score), y_pred.dtype()), {-1});
  return is_positive((k - 0.5) - better);
}

SymbolicTensor Accuracy::operator()(const SymbolicTensor& y_true,
                                    const SymbolicTensor& y_pred) const {
  const Shape truth = y_true.shape();
  const Shape prediction = y_pred.shape();
  if (prediction.rank() < 2 || prediction[-1] == 1) return BinaryAccuracy()(y_true, y_pred);
  const bool sparse = truth.rank() < prediction.rank() || truth[-1] == 1;
  return sparse ? SparseCategoricalAccuracy()(y_true, y_pred)
                : CategoricalAccuracy()(y_true, y_pred);
}

MetricSpec::MetricSpec(const std::string& name) : name_(name), function_(function_by_name(name)) {}

MetricSpec::MetricSpec(std::string name, TargetFunction function)
    : name_(std::move(name)), function_(std::move(function)) {}

MetricSpec MetricSpec::on_output(int output) const {
  MetricSpec copy = *this;
  copy.output_ = output;
  return copy;
}

SymbolicTensor MetricSpec::operator()(const SymbolicTensor& y_true,
                                      const SymbolicTensor& y_pred) const {
  return function_(y_true, y_pred);
}

}  // namespace demi
