// 2-D convolution of the CPU backend, on raw pointers.
//
// Activations are NHWC and filters HWIO, [kh, kw, ci / groups, co]. Storage may be float32, float16
// or bfloat16, each tensor its own; sums are float32. With float64 every tensor is float64. Any
// kernel size, stride, dilation, number of groups and (asymmetric) zero padding.
//
// Every function takes a 64-byte aligned workspace of the size its *_workspace_bytes companion
// gives for the same problem and the pool's number of threads, allocates nothing, and gives the
// same bits for any number of threads (Note [Deterministic partitioning] in thread_pool.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include <demi/dtype.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/thread_pool.h"

namespace demi::cpu {

/// One convolution: y[n, oh, ow, co] = activation(x[n, h, w, ci] * w[kh, kw, ci / groups, co] +
/// bias).
struct Conv2DProblem {
  std::int64_t n = 0;
  std::int64_t h = 0;
  std::int64_t w = 0;
  std::int64_t ci = 0;
  std::int64_t kh = 1;
  std::int64_t kw = 1;
  std::int64_t co = 0;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t groups = 1;
  std::int64_t pad_top = 0;
  std::int64_t pad_bottom = 0;
  std::int64_t pad_left = 0;
  std::int64_t pad_right = 0;
  DType x_dtype = float32;  ///< of x, and of dx in the backward pass
  DType w_dtype = float32;  ///< of w, and of dw
  DType y_dtype = float32;  ///< of y, and of dy
  DType bias_dtype = float32;
  Activation activation = Activation::kNone;  ///< forward only

  /// Extent of the output; below 1 if the kernel does not fit into the padded input.
  [[nodiscard]] std::int64_t out_h() const {
    return (h + pad_top + pad_bottom - dilation_h * (kh - 1) - 1) / stride_h + 1;
  }
  [[nodiscard]] std::int64_t out_w() const {
    return (w + pad_left + pad_right - dilation_w * (kw - 1) - 1) / stride_w + 1;
  }
};

/// The windows of a max-pooling without padding. size_h · size_w ≤ 256.
struct PoolWindow {
  std::int64_t size_h = 2;
  std::int64_t size_w = 2;
  std::int64_t stride_h = 2;
  std::int64_t stride_w = 2;

  [[nodiscard]] std::int64_t out_h(std::int64_t h) const { return (h - size_h) / stride_h + 1; }
  [[nodiscard]] std::int64_t out_w(std::int64_t w) const { return (w - size_w) / stride_w + 1; }
};

// ---- Forward
// --------------------------------------------------------------------------------------

[[nodiscard]] std::size_t conv2d_forward_workspace_bytes(const Conv2DProblem& problem, int threads);

/// y = activation(x * w + bias). `bias` [co] may be null.
void conv2d_forward(const Conv2DProblem& problem, const void* x, const void* w, const void* bias,
                    void* y, void* workspace, ThreadPool& pool);

[[nodiscard]] std::size_t conv2d_forward_pooled_workspace_bytes(const Conv2DProblem& problem,
                                                                const PoolWindow& window,
                                                                int threads);

/// Max-pools activation(x * w + bias) without storing it: `y` [n, ph, pw, co] gets each window's
/// maximum and `index` (same shape, bytes) its place in the window, row · size_w + column. The
/// first of equal maxima wins; the first NaN beats every number. y and index are those of
/// conv2d_forward with a float32 y (of y_dtype float64: float64) followed by such a pooling.
void conv2d_forward_pooled(const Conv2DProblem& problem, const PoolWindow& window, const void* x,
                           const void* w, const void* bias, void* y, std::uint8_t* index,
                           void* workspace, ThreadPool& pool);

// ---- Backward
// -------------------------------------------------------------------------------------

[[nodiscard]] std::size_t conv2d_backward_input_workspace_bytes(const Conv2DProblem& problem,
                                                                int threads);

/// dx = gradient of sum(y · dy) by x, without the activation.
void conv2d_backward_input(const Conv2DProblem& problem, const void* w, const void* dy, void* dx,
                           void* workspace, ThreadPool& pool);

[[nodiscard]] std::size_t conv2d_backward_filter_workspace_bytes(const Conv2DProblem& problem,
                                                                 int threads);

/// dw = gradient of sum(y · dy) by w, without the activation. The batch is cut into chunks by its
/// shape; their float32 sums are added in order.
void conv2d_backward_filter(const Conv2DProblem& problem, const void* x, const void* dy, void* dw,
                            void* workspace, ThreadPool& pool);

// ---- Backward through a max-pooling
// ---------------------------------------------------------------
//
// The gradient of a max-pooling is zero but at one place per window. These take the gradient `g`
// [n, ph, pw, co] of the pooled values (y_dtype) with the `index` conv2d_forward_pooled gave, and
// skip the zeros: the result is that of the dense functions on the scattered gradient, up to the
// order of the sums. A g of zero is skipped too, so clear g where the ReLU before the pooling was
// off. If x (for dw) or w (for dx) is not finite throughout, all of the result is NaN: see Note
// [Skipped zeros and non-finite values] in conv2d/pooled_gradient.h.

/// Whether the two functions below take this problem: stride 1, dilation 1, groups 1, images of up
/// to 2^18 elements and windows that overlap little.
[[nodiscard]] bool conv2d_backward_pooled_supports(const Conv2DProblem& problem,
                                                   const PoolWindow& window);

[[nodiscard]] std::size_t conv2d_backward_input_pooled_workspace_bytes(const Conv2DProblem& problem,
                                                                       const PoolWindow& window,
                                                                       int threads);

/// conv2d_backward_input with dy = the max-pooling's gradient.
void conv2d_backward_input_pooled(const Conv2DProblem& problem, const PoolWindow& window,
                                  const void* w, const void* g, const std::uint8_t* index, void* dx,
                                  void* workspace, ThreadPool& pool);

[[nodiscard]] std::size_t conv2d_backward_filter_pooled_workspace_bytes(
    const Conv2DProblem& problem, const PoolWindow& window, int threads);

/// conv2d_backward_filter with dy = the max-pooling's gradient.
void conv2d_backward_filter_pooled(const Conv2DProblem& problem, const PoolWindow& window,
                                   const void* x, const void* g, const std::uint8_t* index,
                                   void* dw, void* workspace, ThreadPool& pool);

}  // namespace demi::cpu
