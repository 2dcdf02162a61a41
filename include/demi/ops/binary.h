// Elementwise operations on two values, with NumPy broadcasting.
//
// Floating inputs of different dtypes meet in the wider one (demi::promote). Gradients are summed
// over the axes that were broadcast.
#pragma once

#include <string>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// Attributes of broadcast_to and sum_to.
struct BroadcastAttributes {
  Shape shape;  ///< of the result
  friend bool operator==(const BroadcastAttributes&, const BroadcastAttributes&) = default;
};
std::string describe(const BroadcastAttributes& attributes);

[[nodiscard]] SymbolicTensor add(const SymbolicTensor& a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor subtract(const SymbolicTensor& a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor multiply(const SymbolicTensor& a, const SymbolicTensor& b);
/// Floating only; 0/0 is NaN as in IEEE 754.
[[nodiscard]] SymbolicTensor divide(const SymbolicTensor& a, const SymbolicTensor& b);
/// A NaN in either gives NaN. On a tie the gradient goes half to each.
[[nodiscard]] SymbolicTensor maximum(const SymbolicTensor& a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor minimum(const SymbolicTensor& a, const SymbolicTensor& b);
/// a to the power b, computed in float32. The gradient in b is 0 where a ≤ 0.
[[nodiscard]] SymbolicTensor power(const SymbolicTensor& a, const SymbolicTensor& b);

/// Comparisons give bool and carry no gradient. Integer inputs are compared exactly.
[[nodiscard]] SymbolicTensor equal(const SymbolicTensor& a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor greater(const SymbolicTensor& a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor greater_equal(const SymbolicTensor& a, const SymbolicTensor& b);

/// condition ? a : b, element by element; condition is bool, all three broadcast.
[[nodiscard]] SymbolicTensor where(const SymbolicTensor& condition, const SymbolicTensor& a,
                                   const SymbolicTensor& b);

/// x repeated along new or unit axes to `shape`.
[[nodiscard]] SymbolicTensor broadcast_to(const SymbolicTensor& x, const Shape& shape);
/// x summed back to `shape`, of which its own shape is a broadcast: broadcast_to's gradient.
[[nodiscard]] SymbolicTensor sum_to(const SymbolicTensor& x, const Shape& shape);

// With a number, rounded to the dtype of the tensor: beside float16 1e-8 is 0 and 1e5 infinite.
[[nodiscard]] SymbolicTensor add(const SymbolicTensor& a, double b);
[[nodiscard]] SymbolicTensor subtract(const SymbolicTensor& a, double b);
[[nodiscard]] SymbolicTensor subtract(double a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor multiply(const SymbolicTensor& a, double b);
[[nodiscard]] SymbolicTensor divide(const SymbolicTensor& a, double b);
[[nodiscard]] SymbolicTensor divide(double a, const SymbolicTensor& b);
[[nodiscard]] SymbolicTensor maximum(const SymbolicTensor& a, double b);
[[nodiscard]] SymbolicTensor minimum(const SymbolicTensor& a, double b);
[[nodiscard]] SymbolicTensor power(const SymbolicTensor& a, double b);

}  // namespace demi::ops

namespace demi {

inline SymbolicTensor operator+(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ops::add(a, b);
}
inline SymbolicTensor operator-(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ops::subtract(a, b);
}
inline SymbolicTensor operator*(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ops::multiply(a, b);
}
inline SymbolicTensor operator/(const SymbolicTensor& a, const SymbolicTensor& b) {
  return ops::divide(a, b);
}
inline SymbolicTensor operator+(const SymbolicTensor& a, double b) {
  return ops::add(a, b);
}
inline SymbolicTensor operator+(double a, const SymbolicTensor& b) {
  return ops::add(b, a);
}
inline SymbolicTensor operator-(const SymbolicTensor& a, double b) {
  return ops::subtract(a, b);
}
inline SymbolicTensor operator-(double a, const SymbolicTensor& b) {
  return ops::subtract(a, b);
}
inline SymbolicTensor operator*(const SymbolicTensor& a, double b) {
  return ops::multiply(a, b);
}
inline SymbolicTensor operator*(double a, const SymbolicTensor& b) {
  return ops::multiply(b, a);
}
inline SymbolicTensor operator/(const SymbolicTensor& a, double b) {
  return ops::divide(a, b);
}
inline SymbolicTensor operator/(double a, const SymbolicTensor& b) {
  return ops::divide(a, b);
}

}  // namespace demi
