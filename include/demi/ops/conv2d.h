// 2-D convolution (cross-correlation, as everywhere in deep learning), NHWC.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <demi/ops/activation.h>
#include <demi/ops/pooling.h>
#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// How a call pads; see Padding2D.
struct Conv2DOptions {
  std::array<std::int64_t, 2> strides = {1, 1};
  PaddingMode padding = PaddingMode::kValid;
  std::array<std::int64_t, 2> dilation_rate = {1, 1};
  std::int64_t groups = 1;
};

/// The order of a filter's axes in memory: [kh, kw, ci / groups, co], or [co, kh, kw, ci / groups]
/// where the backend prefers that (set by the pass keep_weight_copies).
enum class FilterLayout { kHwio, kOhwi };

/// Attributes of conv2d, conv2d_backward_input, conv2d_backward_filter and of the latter two's
/// forms for a pooled gradient, which are not written by hand:
///   conv2d_backward_input_pooled(filter, dy, index), conv2d_backward_filter_pooled(x, dy, index)
/// are the backward ops of max_pool2d_backward(dy, index), with has_pool and the pooling's geometry
/// set; kernels skip the zeros where they can.
struct Conv2DAttributes {
  std::array<std::int64_t, 2> strides = {1, 1};
  Padding2D padding = {};
  std::array<std::int64_t, 2> dilation_rate = {1, 1};
  std::int64_t groups = 1;
  /// Set by the fuse pass (conv2d only): input 2 is a bias [co]; then the activation; then, if
  /// has_pool, max pooling, whose byte index is output 1.
  bool has_bias = false;
  Activation activation = Activation::kNone;
  bool has_pool = false;
  Pool2DAttributes pool = {};
  /// conv2d_backward_input: the spatial extents of x; conv2d_backward_filter: of the filter. They
  /// do not follow from the other shapes.
  std::array<std::int64_t, 2> result_size = {0, 0};
  /// Of the filter, or of its gradient.
  FilterLayout filter_layout = FilterLayout::kHwio;
  friend bool operator==(const Conv2DAttributes&, const Conv2DAttributes&) = default;
};
std::string describe(const Conv2DAttributes& attributes);

/// x [n, h, w, ci], filter [kh, kw, ci / groups, co] -> [n, oh, ow, co], float32 accumulation.
///   oh = floor((h + top + bottom - ((kh - 1) · dilation + 1)) / stride) + 1
/// Throws std::invalid_argument for wrong ranks or channels, a filter larger than the padded input,
/// strides and dilation both above 1, or groups that do not divide ci and co.
[[nodiscard]] SymbolicTensor conv2d(const SymbolicTensor& x, const SymbolicTensor& filter,
                                    const Conv2DOptions& options = {});

/// d loss / d x [n, h, w, ci] from dy [n, oh, ow, co] and the filter; result_size is {h, w}.
[[nodiscard]] SymbolicTensor conv2d_backward_input(const SymbolicTensor& dy,
                                                   const SymbolicTensor& filter,
                                                   const Conv2DAttributes& attributes);

/// d loss / d filter [kh, kw, ci / groups, co] from x and dy; result_size is {kh, kw}.
[[nodiscard]] SymbolicTensor conv2d_backward_filter(const SymbolicTensor& x,
                                                    const SymbolicTensor& dy,
                                                    const Conv2DAttributes& attributes);

}  // namespace demi::ops
