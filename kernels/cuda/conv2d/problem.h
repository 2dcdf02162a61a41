// Conv2DProblem: one convolution or gradient of one, taken apart for kernels.
#pragma once

#include <cstdint>
#include <string>

#include <demi/ops/conv2d.h>

#include "kernels/kernel.h"

namespace demi::cuda {

/// y[n, oh, ow, co] = x[n, h, w, ci] * filter, dtypes being those of a tensor or of its gradient.
struct Conv2DProblem {
  std::int64_t n = 0, h = 0, w = 0, ci = 0;
  std::int64_t oh = 0, ow = 0, co = 0;
  std::int64_t kh = 1, kw = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  DType x_dtype = float32, filter_dtype = float32, y_dtype = float32, bias_dtype = float32;
  bool has_bias = false;
  bool relu = false;
  bool filter_is_ohwi = false;  ///< else [kh, kw, ci / groups, co]; Note [Filter layouts]

  [[nodiscard]] std::int64_t pixels() const { return n * oh * ow; }
  [[nodiscard]] std::int64_t group_in() const { return ci / groups; }
  [[nodiscard]] std::int64_t group_out() const { return co / groups; }
  /// Filter weights per output channel.
  [[nodiscard]] std::int64_t taps() const { return kh * kw * group_in(); }
  /// "n=2 h=8 w=7 ci=4 …", different for different problems.
  [[nodiscard]] std::string key() const;
};

/// The problem of a request for conv2d (without a pooling), conv2d_backward_input or
/// conv2d_backward_filter.
[[nodiscard]] Conv2DProblem conv2d_problem(const KernelRequest& request);
[[nodiscard]] Conv2DProblem conv2d_backward_input_problem(const KernelRequest& request);
[[nodiscard]] Conv2DProblem conv2d_backward_filter_problem(const KernelRequest& request);

}  // namespace demi::cuda
