// Matrix product.
#pragma once

#include <string>

#include <demi/ops/activation.h>
#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  /// Set by the fuse pass: input 2 is a bias [n] added to every row, then `activation` is applied.
  bool has_bias = false;
  Activation activation = Activation::kNone;
  /// Set by the fuse pass: input 2 is y [m, n], what a relu gave, and the product is 0 where y ≤ 0:
  /// relu_backward(op(a) · op(b), y). Not with a bias or an activation.
  bool relu_backward = false;
  /// Set by the fuse pass where b is a gradient: output 1, float32 (float64 for float64), holds its
  /// sums over the inner extent, [n].
  bool bias_gradient = false;
  friend bool operator==(const MatmulAttributes&, const MatmulAttributes&) = default;
};
std::string describe(const MatmulAttributes& attributes);

/// op(a) · op(b), float32 accumulation (float64 for float64).
///   a [m, k] (or [k, m] if transpose_a), b [k, n] (or [n, k]) -> [m, n]
/// Throws std::invalid_argument unless both are rank 2 and the inner extents agree.
[[nodiscard]] SymbolicTensor matmul(const SymbolicTensor& a, const SymbolicTensor& b,
                                    bool transpose_a = false, bool transpose_b = false);

}  // namespace demi::ops
