// Softmax along one axis, computed in float32 (float64 for float64).
#pragma once

#include <string>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct SoftmaxAttributes {
  int axis = -1;
  friend bool operator==(const SoftmaxAttributes&, const SoftmaxAttributes&) = default;
};
std::string describe(const SoftmaxAttributes& attributes);

/// exp(x - max) / sum(exp(x - max)); AutocastRule::kFloat32, so the result is at least float32. A
/// row of -inf gives zeros; a NaN makes its row NaN.
[[nodiscard]] SymbolicTensor softmax(const SymbolicTensor& x, int axis = -1);
/// x - max - log(sum(exp(x - max))).
[[nodiscard]] SymbolicTensor log_softmax(const SymbolicTensor& x, int axis = -1);

}  // namespace demi::ops
