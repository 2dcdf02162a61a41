// Activations: the function a layer applies to its result.
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <demi/config.h>
#include <demi/symbolic_tensor.h>

namespace demi {

using ActivationFunction = std::function<SymbolicTensor(const SymbolicTensor&)>;

/// An activation by Keras' name or as a function of one's own:
///   .activation = "relu"
///   .activation = [](const demi::SymbolicTensor& x) { return x * demi::ops::sigmoid(x); }
class ActivationSpec {
 public:
  /// "linear": the value itself.
  ActivationSpec() = default;
  // NOLINTBEGIN(google-explicit-constructor): options take an activation by name
  /// "relu", "sigmoid", "tanh", "softmax", "log_softmax", "gelu", "softplus", "exponential" or
  /// "linear". Throws std::invalid_argument, with a suggestion, for any other.
  ActivationSpec(const std::string& name);
  ActivationSpec(const char* name) : ActivationSpec(std::string(name)) {}
  template <class F>
  requires std::is_invocable_r_v<SymbolicTensor, const F&, const SymbolicTensor&> &&
      (!std::same_as<F, ActivationSpec>)ActivationSpec(F function)
      : name_("custom"), function_(std::move(function)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::string& name() const { return name_; }
  /// Whether there is nothing to apply.
  [[nodiscard]] bool is_linear() const { return function_ == nullptr; }
  [[nodiscard]] SymbolicTensor operator()(const SymbolicTensor& x) const {
    return function_ ? function_(x) : x;
  }

  /// The name. Throws std::invalid_argument for a function of one's own.
  [[nodiscard]] Config get_config() const;
  /// From a name or null ("linear").
  [[nodiscard]] static ActivationSpec from_config(const Config& config);

 private:
  std::string name_ = "linear";
  ActivationFunction function_;
};

}  // namespace demi
