// The axes of a reduction, simplified.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

#include <demi/shape.h>

namespace demi {

/// Bit i: axis i is reduced.
using AxisSet = std::bitset<Shape::kMaxRank>;

/// A list of axes, outermost first.
struct StridedAxes {
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> extent{};
  std::array<std::int64_t, Shape::kMaxRank> stride{};

  void push_front(std::int64_t n, std::int64_t step) {
    for (int i = rank++; i > 0; --i) {
      extent[static_cast<std::size_t>(i)] = extent[static_cast<std::size_t>(i - 1)];
      stride[static_cast<std::size_t>(i)] = stride[static_cast<std::size_t>(i - 1)];
    }
    extent[0] = n;
    stride[0] = step;
  }
  [[nodiscard]] std::int64_t count() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extent[static_cast<std::size_t>(i)];
    return product;
  }
  /// Offset of the index-th combination of positions, in row-major order.
  [[nodiscard]] std::int64_t offset(std::int64_t index) const {
    if (rank == 0) return 0;
    std::int64_t sum = 0;
    for (int i = rank - 1; i > 0; --i) {
      const auto k = static_cast<std::size_t>(i);
      sum += index % extent[k] * stride[k];
      index /= extent[k];
    }
    return sum + index * stride[0];
  }
};

/// A shape of which some axes are reduced. Axes of extent 1 are dropped and neighbours of one kind
/// merged, so that the innermost axis decides how the elements are best walked.
struct ReductionLayout {
  StridedAxes kept, reduced;  ///< without the innermost axis
  std::int64_t inner = 1;     ///< extent of the innermost axis
  bool inner_kept = true;
  std::int64_t outputs = 1;        ///< elements of the result
  std::int64_t reduced_count = 1;  ///< elements behind each of them
};

[[nodiscard]] ReductionLayout reduction_layout(const Shape& shape, AxisSet axes);

}  // namespace demi
