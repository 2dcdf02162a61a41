// Elementwise functions of one value. 16-bit inputs are computed in float32 and rounded once.
// Integers are accepted where the result is one too: negative, abs, square, sign and relu.
#pragma once

#include <demi/symbolic_tensor.h>

namespace demi::ops {

[[nodiscard]] SymbolicTensor negative(const SymbolicTensor& x);
[[nodiscard]] SymbolicTensor abs(const SymbolicTensor& x);     ///< gradient 0 at 0
[[nodiscard]] SymbolicTensor square(const SymbolicTensor& x);  ///< in float32 under a 16-bit policy
[[nodiscard]] SymbolicTensor reciprocal(const SymbolicTensor& x);  ///< the same
[[nodiscard]] SymbolicTensor sign(const SymbolicTensor& x);  ///< not differentiable; NaN stays NaN
/// These four are computed in at least float32 (AutocastRule::kFloat32) and give at least float32.
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

// Their gradients, of two values of one shape: y is the activation's output, x its input.
/// dy where y > 0, else 0.
[[nodiscard]] SymbolicTensor relu_backward(const SymbolicTensor& dy, const SymbolicTensor& y);
/// dy · y · (1 - y).
[[nodiscard]] SymbolicTensor sigmoid_backward(const SymbolicTensor& dy, const SymbolicTensor& y);
/// dy · (1 - y²).
[[nodiscard]] SymbolicTensor tanh_backward(const SymbolicTensor& dy, const SymbolicTensor& y);
/// dy · (Phi(x) + x · phi(x)).
[[nodiscard]] SymbolicTensor gelu_backward(const SymbolicTensor& dy, const SymbolicTensor& x);

}  // namespace demi::ops
