// Elementwise functions of one value. 16-bit inputs are computed in float32 and rounded once.
#pragma once

#include <demi/symbolic_tensor.h>

namespace demi::ops {

[[nodiscard]] SymbolicTensor negative(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor abs(const SymbolicTensor& x);  ///< gradient 0 at 0
[[nodiscard]] SymbolicTensor square(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor reciprocal(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor sign(const SymbolicTensor& x);  ///< not differentiable; NaN stays NaN
/// The functions below are computed in at least float32 (AutocastRule::kFloat32) and give float32.
[[nodiscard]] SymbolicTensor exp(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor log(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor sqrt(const SymbolicTensor& x);
/// log(1 + exp(x)) without overflow.
[[nodiscard]] SymbolicTensor softplus(const SymbolicTensor& x);

// Activations: the dtype of x. A NaN passes through.
[[nodiscard]] SymbolicTensor relu(const SymbolicTensor& x);  ///< max(x, 0), gradient 0 at 0
[[nodiscard]] SymbolicTensor sigmoid(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor tanh(const SymbolicTensor& x);
/// x · Phi(x), exact (erf), as Keras' gelu(approximate=False).
[[nodiscard]] SymbolicTensor gelu(const SymbolicTensor& x);

/// dy where y > 0, else 0; y is relu's output. In IR: relu_backward(dy, y).
[[nodiscard]] SymbolicTensor relu_backward(const SymbolicTensor& dy, const SymbolicTensor& y);

}  // namespace demi::ops
