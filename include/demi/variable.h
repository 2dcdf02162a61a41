// Variable: a named tensor that outlives a step: weights, running statistics.
#pragma once

#include <memory>
#include <string>

#include <demi/symbolic_tensor.h>
#include <demi/tensor.h>

namespace demi {

struct VariableState;

/// A handle: copies name the same variable. Made by Layer::add_weight. Used like a symbolic value
/// inside Layer::call, where reading it puts it into the graph being traced.
class Variable {
 public:
  Variable() = default;
  explicit Variable(std::shared_ptr<VariableState> state) : state_(std::move(state)) {}

  [[nodiscard]] explicit operator bool() const { return state_ != nullptr; }
  /// Path within the model, "conv2d/kernel".
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const Shape& shape() const;
  /// Storage dtype: the variable dtype of the layer's policy.
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] bool trainable() const;

  /// The current value, copied to host memory.
  [[nodiscard]] Tensor value() const;
  /// Overwrites the value. Throws std::invalid_argument unless shape and dtype match.
  void assign(const Tensor& value) const;

  /// The variable's value in the graph being traced on this thread. Throws std::invalid_argument
  /// outside of tracing.
  operator SymbolicTensor() const;  // NOLINT(google-explicit-constructor)

  [[nodiscard]] const std::shared_ptr<VariableState>& state() const { return state_; }
  friend bool operator==(const Variable& a, const Variable& b) = default;

 private:
  std::shared_ptr<VariableState> state_;
};

}  // namespace demi
