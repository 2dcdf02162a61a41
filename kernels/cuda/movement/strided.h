// Copies between strided arrays as the kernels of the family movement make them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <demi/shape.h>

namespace demi::cuda::movement {

/// One axis of what is copied, and the step along it in the source and in the target.
struct Axis {
  std::int64_t extent;
  std::int64_t from;
  std::int64_t to;
};

/// A copy: axes outermost first, offsets of the first element; all in words of `word` bytes (1, 2,
/// 4, 8 or 16). Passed to kernels by value.
struct StridedCopy {
  int rank = 0;
  int word = 1;
  std::int64_t narrow = 1;  ///< flag: indices fit into 32 bits
  std::int64_t count = 1;
  std::int64_t from = 0, to = 0;
  std::int64_t extent[Shape::kMaxRank] = {};
  std::int64_t from_stride[Shape::kMaxRank] = {};
  std::int64_t to_stride[Shape::kMaxRank] = {};
};

/// A copy of elements of `size` bytes: axes of extent 1 are dropped, neighbours merged where source
/// and target allow, and elements taken together to the widest words that fit everywhere.
[[nodiscard]] StridedCopy make_copy(std::span<const Axis> axes, std::int64_t from, std::int64_t to,
                                    std::size_t size);

/// Strides in elements of a row-major array of that shape.
[[nodiscard]] std::vector<std::int64_t> strides_of(const Shape& shape);

}  // namespace demi::cuda::movement
