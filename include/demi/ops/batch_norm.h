// Batch normalization over all axes but the last.
#pragma once

#include <string>

#include <demi/ops/activation.h>
#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct BatchNormAttributes {
  double epsilon = 1e-3;
  /// Set by the fuse pass: applied to y. In the backward op y (a further input) then masks dy.
  Activation activation = Activation::kNone;
  friend bool operator==(const BatchNormAttributes&, const BatchNormAttributes&) = default;
};
std::string describe(const BatchNormAttributes& attributes);

struct BatchNormResult {
  SymbolicTensor y;         ///< like x
  SymbolicTensor mean;      ///< float32 [c], of this batch
  SymbolicTensor variance;  ///< float32 [c], of this batch, biased (divided by the count)
};

/// y = gamma · (x - mean) / sqrt(variance + epsilon) + beta with the statistics of this batch.
///   x [..., c] in any floating dtype; gamma, beta float32 [c]; statistics and arithmetic in
///   float32 (float64 for float64). An empty batch has mean 0 and variance 0. Throws
///   std::invalid_argument for other shapes, non-floating dtypes and a negative epsilon.
/// mean and variance are not differentiated through by themselves: only y carries a gradient.
/// In IR there is a fourth output, inv_std = 1 / sqrt(variance + epsilon), for
///   dx, dgamma, dbeta = batch_norm_backward(dy, x, gamma, mean, inv_std[, y]).
[[nodiscard]] BatchNormResult batch_norm_train(const SymbolicTensor& x, const SymbolicTensor& gamma,
                                               const SymbolicTensor& beta, double epsilon);

/// The same with given statistics, float32 [c]; differentiable in x, gamma and beta, in IR by
///   dx, dgamma, dbeta = batch_norm_inference_backward(dy, x, gamma, mean, variance[, y]).
[[nodiscard]] SymbolicTensor batch_norm_inference(const SymbolicTensor& x,
                                                  const SymbolicTensor& gamma,
                                                  const SymbolicTensor& beta,
                                                  const SymbolicTensor& mean,
                                                  const SymbolicTensor& variance, double epsilon);

}  // namespace demi::ops
