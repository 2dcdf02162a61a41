// What every convolution function assumes of its problem.
#pragma once

#include "kernels/cpu/conv2d.h"
#include "src/core/check.h"

namespace demi::cpu {

/// Throws InternalError unless the problem is well-formed: the operations have checked it before.
inline void check_conv2d(const Conv2DProblem& p) {
  const bool wide = p.y_dtype == DType::kFloat64;
  DEMI_CHECK(p.n >= 0 && p.h > 0 && p.w > 0 && p.ci > 0 && p.co > 0, "a tensor is empty");
  DEMI_CHECK(p.kh > 0 && p.kw > 0 && p.stride_h > 0 && p.stride_w > 0, "the kernel is empty");
  DEMI_CHECK(p.dilation_h > 0 && p.dilation_w > 0, "dilation starts at 1");
  DEMI_CHECK(p.groups > 0 && p.ci % p.groups == 0 && p.co % p.groups == 0,
             "the groups divide the channels");
  DEMI_CHECK(p.pad_top >= 0 && p.pad_bottom >= 0 && p.pad_left >= 0 && p.pad_right >= 0,
             "padding is not negative");
  DEMI_CHECK(p.h + p.pad_top + p.pad_bottom > p.dilation_h * (p.kh - 1) &&
                 p.w + p.pad_left + p.pad_right > p.dilation_w * (p.kw - 1),
             "the kernel fits into the padded input");
  DEMI_CHECK(is_floating(p.x_dtype) && is_floating(p.w_dtype) && is_floating(p.y_dtype),
             "tensors hold floating-point numbers");
  DEMI_CHECK((p.x_dtype == DType::kFloat64) == wide && (p.w_dtype == DType::kFloat64) == wide,
             "float64 goes with float64 only");
}

/// The same for a max-pooling of its output.
inline void check_window(const Conv2DProblem& p, const PoolWindow& window) {
  DEMI_CHECK(window.size_h > 0 && window.size_w > 0 && window.size_h * window.size_w <= 256,
             "a place in a window fits into a byte");
  DEMI_CHECK(window.stride_h > 0 && window.stride_w > 0, "strides start at 1");
  DEMI_CHECK(window.size_h <= p.out_h() && window.size_w <= p.out_w(),
             "the window fits into the output");
}

/// The same for the gradient through a max-pooling.
inline void check_pooled_gradient(const Conv2DProblem& p, const PoolWindow& window) {
  check_conv2d(p);
  check_window(p, window);
  DEMI_CHECK(conv2d_backward_pooled_supports(p, window),
             "the dense gradients serve all other problems");
}

}  // namespace demi::cpu
