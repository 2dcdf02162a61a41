// 2-D pooling, NHWC, and the padding rules it shares with convolution.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// "valid": no padding. "same": as much as makes oh = ceil(h / stride), the odd pixel at the bottom
/// and right (TensorFlow's and Keras' rule).
enum class PaddingMode { kValid, kSame };

/// Throws std::invalid_argument "[where] …" for other names.
[[nodiscard]] PaddingMode parse_padding(std::string_view name, const char* where);

/// Pixels added around an image.
struct Padding2D {
  std::int64_t top = 0;
  std::int64_t bottom = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;
  friend bool operator==(const Padding2D&, const Padding2D&) = default;
};
std::string describe(const Padding2D& padding);

/// The padding of a window of `size` · `dilation` on an image of h × w under `mode`.
[[nodiscard]] Padding2D resolve_padding(PaddingMode mode, std::array<std::int64_t, 2> image,
                                        std::array<std::int64_t, 2> size,
                                        std::array<std::int64_t, 2> strides,
                                        std::array<std::int64_t, 2> dilation = {1, 1});

/// Number of window positions along one axis; < 1 if the window does not fit.
[[nodiscard]] std::int64_t window_positions(std::int64_t extent, std::int64_t pad_before,
                                            std::int64_t pad_after, std::int64_t size,
                                            std::int64_t stride, std::int64_t dilation = 1);

struct Pool2DOptions {
  std::array<std::int64_t, 2> pool_size = {2, 2};
  /// {0, 0}: equal to pool_size.
  std::array<std::int64_t, 2> strides = {0, 0};
  PaddingMode padding = PaddingMode::kValid;
};

/// Attributes of max_pool2d, average_pool2d and their backward ops.
struct Pool2DAttributes {
  std::array<std::int64_t, 2> pool_size = {2, 2};
  std::array<std::int64_t, 2> strides = {2, 2};
  Padding2D padding = {};
  /// Set by the fuse pass: relu is applied to the pooled value (max_pool2d); max_pool2d_backward
  /// then takes y as input 2 and passes dy on where y > 0.
  bool relu = false;
  /// Backward ops: the spatial extents of x, which do not follow from those of dy.
  std::array<std::int64_t, 2> image_size = {0, 0};
  /// Set by the fuse pass: max_pool2d_backward also sums its result over the positions; output 1 is
  /// float32 [c] (float64 for float64).
  bool bias_gradient = false;
  /// Set by the fuse pass: max_pool2d gives y only, and max_pool2d_backward takes (dy, x, y), from
  /// which it finds the maxima anew.
  bool from_image = false;
  friend bool operator==(const Pool2DAttributes&, const Pool2DAttributes&) = default;
};
std::string describe(const Pool2DAttributes& attributes);

/// Maximum over each window. x [n, h, w, c] -> {y [n, oh, ow, c], index uint8[n, oh, ow, c]}; index
/// is the position of the first maximum in its window, row-major, kh · pool width + kw; a NaN
/// counts as the maximum. Padding never wins. Throws std::invalid_argument for windows of more than
/// 255 elements or that do not fit.
[[nodiscard]] std::pair<SymbolicTensor, SymbolicTensor> max_pool2d(const SymbolicTensor& x,
                                                                   const Pool2DOptions& = {});

/// Sends dy to the position each maximum came from (summing where windows overlap), zero elsewhere.
/// attributes.image_size gives the result's extents. Throws std::invalid_argument unless dy and
/// index have the shape that the pooling of such an image has.
[[nodiscard]] SymbolicTensor max_pool2d_backward(const SymbolicTensor& dy,
                                                 const SymbolicTensor& index,
                                                 const Pool2DAttributes& attributes);

/// Mean over the part of each window that lies inside the image (padding is not counted), float32
/// accumulation. x [n, h, w, c] -> [n, oh, ow, c].
[[nodiscard]] SymbolicTensor average_pool2d(const SymbolicTensor& x, const Pool2DOptions& = {});

/// Spreads dy evenly over the elements that each mean was taken of.
[[nodiscard]] SymbolicTensor average_pool2d_backward(const SymbolicTensor& dy,
                                                     const Pool2DAttributes& attributes);

}  // namespace demi::ops
