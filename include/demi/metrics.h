// Metrics: what is reported about a model beside its loss.
//
// A metric is a function of (y_true, y_pred) like a loss; what is reported for an epoch is the mean
// of its values over all samples. No gradient flows through it.
#pragma once

#include <string>
#include <utility>

#include <demi/losses.h>
#include <demi/symbolic_tensor.h>

namespace demi {

/// Share of samples whose highest score is at the label: integers [n, ...] or [n, ..., 1], scores
/// [n, ..., classes].
struct SparseCategoricalAccuracy {
  static constexpr const char* kName = "sparse_categorical_accuracy";
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// Share of samples whose highest score is at the highest target; both [n, ..., classes].
struct CategoricalAccuracy {
  static constexpr const char* kName = "categorical_accuracy";
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// Share of elements for which (y_pred > threshold) equals y_true.
struct BinaryAccuracy {
  static constexpr const char* kName = "binary_accuracy";
  double threshold = 0.5;
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// Share of samples for which fewer than k scores exceed the one at the highest target; one-hot
/// targets and scores [n, ..., classes].
struct TopKCategoricalAccuracy {
  static constexpr const char* kName = "top_k_categorical_accuracy";
  int k = 5;
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// One of the first three above, chosen by the shapes as Keras does: binary when y_pred has one
/// value per sample, sparse when y_true lacks y_pred's last axis, else categorical. Its name is
/// "accuracy".
struct Accuracy {
  static constexpr const char* kName = "accuracy";
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// A metric by name ("accuracy", "mse", or any loss), by one of the structs above or of losses.h,
/// or by a function of one's own with a name. In a model of several outputs it is reported for each
/// of them unless `on_output` picks one.
class MetricSpec {
 public:
  /// Throws std::invalid_argument, with a suggestion, for an unknown name. It is reported under the
  /// name it was asked for by.
  MetricSpec(const char* name)  // NOLINT(google-explicit-constructor)
      : MetricSpec(std::string(name)) {}
  MetricSpec(const std::string& name);  // NOLINT(google-explicit-constructor)
  template <class F>
  requires TargetFunctionLike<F> MetricSpec(F function) {  // NOLINT(google-explicit-constructor)
    if constexpr (requires { F::kName; }) {
      name_ = F::kName;
    } else {
      name_ = "custom_metric";
    }
    function_ = std::move(function);
  }
  MetricSpec(std::string name, TargetFunction function);

  [[nodiscard]] const std::string& name() const { return name_; }
  /// The model output it is computed of; -1: of each.
  [[nodiscard]] int output() const { return output_; }
  [[nodiscard]] MetricSpec on_output(int output) const;

  /// Writes the metric into the graph of its arguments. Throws as LossSpec does.
  [[nodiscard]] SymbolicTensor operator()(const SymbolicTensor& y_true,
                                          const SymbolicTensor& y_pred) const;

 private:
  std::string name_;
  int output_ = -1;
  TargetFunction function_;
};

}  // namespace demi
