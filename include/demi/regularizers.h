// Regularizers: penalties on weights (or outputs) that are added to the loss.
#pragma once

#include <string>

#include <demi/config.h>
#include <demi/symbolic_tensor.h>

namespace demi {

/// l1 · Σ|x| + l2 · Σx², a float32 scalar (float64 of float64 values). Of a weight it is computed
/// on the variable itself, never on its 16-bit copy.
class Regularizer {
 public:
  // NOLINTBEGIN(google-explicit-constructor): options take a regularizer by name
  /// "l1" or "l2" (factor 0.01) or "l1_l2" (factors 0, as in Keras). Throws std::invalid_argument,
  /// with a suggestion, for any other.
  Regularizer(const std::string& name);
  Regularizer(const char* name) : Regularizer(std::string(name)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] SymbolicTensor operator()(const SymbolicTensor& x) const;

  /// {"module", "class_name", "config", …} as Keras writes it.
  [[nodiscard]] Config get_config() const;
  /// From such a config or a name.
  [[nodiscard]] static Regularizer from_config(const Config& config);

  /// Throws std::invalid_argument for a negative or non-finite factor. `class_name` is "L1", "L2"
  /// or "L1L2".
  Regularizer(std::string class_name, double l1, double l2);

 private:
  std::string class_name_;
  double l1_ = 0;
  double l2_ = 0;
};

namespace regularizers {

[[nodiscard]] inline Regularizer L1(double l1 = 0.01) {
  return {"L1", l1, 0};
}
[[nodiscard]] inline Regularizer L2(double l2 = 0.01) {
  return {"L2", 0, l2};
}
[[nodiscard]] inline Regularizer L1L2(double l1 = 0, double l2 = 0) {
  return {"L1L2", l1, l2};
}

}  // namespace regularizers
}  // namespace demi
