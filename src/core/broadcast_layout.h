// Where the elements of a broadcast operand are.
#pragma once

#include <array>
#include <cstdint>

#include <demi/shape.h>

namespace demi {

/// Where output element i finds its operand: offset = Σ index_k(i) · stride_k over `rank` axes,
/// outermost first. Axes of extent 1 are dropped and axes that can be walked as one are merged.
struct BroadcastLayout {
  int rank = 0;
  std::array<std::int64_t, Shape::kMaxRank> extent{};
  std::array<std::int64_t, Shape::kMaxRank> stride{};  ///< 0 along a broadcast axis

  [[nodiscard]] bool is_contiguous() const { return rank == 0 || (rank == 1 && stride[0] == 1); }
  [[nodiscard]] bool is_scalar() const { return rank == 1 && stride[0] == 0; }
  /// The operand repeats as a whole, extent[1] elements each time: a row vector, a bias.
  [[nodiscard]] bool is_periodic() const { return rank == 2 && stride[0] == 0 && stride[1] == 1; }
};

/// The layout of an operand of shape `from` in an output of shape `to`, which it broadcasts to.
[[nodiscard]] BroadcastLayout broadcast_layout(const Shape& from, const Shape& to);

}  // namespace demi
