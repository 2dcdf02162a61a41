// Losses: what a model is trained to make small.
//
// A loss is a function of (y_true, y_pred) written with demi::ops. It gives one value per sample,
// or several, or a scalar; the model minimises their mean. y_pred is a model output and therefore
// float32 (float64 under a float64 policy); losses are never computed in 16 bits.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <demi/symbolic_tensor.h>

namespace demi {

/// What y_true holds.
enum class TargetKind {
  kLikePrediction,  ///< values of y_pred's shape, any dtype
  kClassIndices,    ///< integers in [0, extent of y_pred's last axis)
};

/// Cross-entropy of integer labels [n, ...] or [n, ..., 1] with scores [n, ..., classes].
struct SparseCategoricalCrossentropy {
  static constexpr const char* kName = "sparse_categorical_crossentropy";
  static constexpr TargetKind kTarget = TargetKind::kClassIndices;
  bool from_logits = false;  ///< scores are logits; otherwise probabilities
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// Cross-entropy of target probabilities with scores, both [n, ..., classes].
struct CategoricalCrossentropy {
  static constexpr const char* kName = "categorical_crossentropy";
  static constexpr TargetKind kTarget = TargetKind::kLikePrediction;
  bool from_logits = false;
  /// In [0, 1]: targets become y · (1 - label_smoothing) + label_smoothing / classes.
  double label_smoothing = 0;
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// Cross-entropy of independent yes/no targets, elementwise.
struct BinaryCrossentropy {
  static constexpr const char* kName = "binary_crossentropy";
  static constexpr TargetKind kTarget = TargetKind::kLikePrediction;
  bool from_logits = false;
  /// In [0, 1]: targets become y · (1 - label_smoothing) + label_smoothing / 2.
  double label_smoothing = 0;
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// (y_true - y_pred)².
struct MeanSquaredError {
  static constexpr const char* kName = "mean_squared_error";
  static constexpr TargetKind kTarget = TargetKind::kLikePrediction;
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// |y_true - y_pred|.
struct MeanAbsoluteError {
  static constexpr const char* kName = "mean_absolute_error";
  static constexpr TargetKind kTarget = TargetKind::kLikePrediction;
  SymbolicTensor operator()(const SymbolicTensor& y_true, const SymbolicTensor& y_pred) const;
};

/// A function of (y_true, y_pred).
using TargetFunction = std::function<SymbolicTensor(const SymbolicTensor&, const SymbolicTensor&)>;

template <class F>
concept TargetFunctionLike =
    std::is_invocable_r_v<SymbolicTensor, const F&, const SymbolicTensor&, const SymbolicTensor&>;

/// A loss by name, by one of the structs above, or by a function of one's own:
///   .loss = "mse"
///   .loss = demi::SparseCategoricalCrossentropy({.from_logits = true})
///   .loss = [](const auto& y_true, const auto& y_pred) { return ops::mean(…); }
class LossSpec {
 public:
  /// No loss: an output that is not trained on.
  LossSpec() = default;
  /// Throws std::invalid_argument, with a suggestion, for an unknown name.
  LossSpec(const char* name)
      : LossSpec(std::string(name)) {}  // NOLINT(google-explicit-constructor)
  LossSpec(const std::string& name);    // NOLINT(google-explicit-constructor)
  template <class F>
  requires TargetFunctionLike<F> LossSpec(F function) {  // NOLINT(google-explicit-constructor)
    if constexpr (requires { F::kName; }) {
      name_ = F::kName;
      target_ = F::kTarget;
    } else {
      name_ = "custom_loss";
    }
    function_ = std::move(function);
  }
  /// A function of one's own under a name, and what it expects of y_true.
  LossSpec(std::string name, TargetFunction function,
           TargetKind target = TargetKind::kLikePrediction);

  [[nodiscard]] explicit operator bool() const { return function_ != nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] TargetKind target() const { return target_; }

  /// Writes the loss into the graph of its arguments. Throws std::invalid_argument for shapes or
  /// dtypes that the loss does not take.
  [[nodiscard]] SymbolicTensor operator()(const SymbolicTensor& y_true,
                                          const SymbolicTensor& y_pred) const;

 private:
  std::string name_;
  TargetKind target_ = TargetKind::kLikePrediction;
  TargetFunction function_;
};

/// One loss for each model output: written as a single loss or as a list.
class LossSpecs {
 public:
  LossSpecs() = default;
  template <class T>
  requires std::constructible_from<LossSpec, T> LossSpecs(T loss)
      : losses_{LossSpec(std::move(loss))} {}  // NOLINT(google-explicit-constructor)
  LossSpecs(std::initializer_list<LossSpec> losses) : losses_(losses) {}
  LossSpecs(std::vector<LossSpec> losses)  // NOLINT(google-explicit-constructor)
      : losses_(std::move(losses)) {}

  [[nodiscard]] bool empty() const { return losses_.empty(); }
  [[nodiscard]] std::size_t size() const { return losses_.size(); }
  [[nodiscard]] const LossSpec& operator[](std::size_t i) const { return losses_[i]; }
  [[nodiscard]] auto begin() const { return losses_.begin(); }
  [[nodiscard]] auto end() const { return losses_.end(); }

 private:
  std::vector<LossSpec> losses_;
};

}  // namespace demi
