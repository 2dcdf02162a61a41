// Strided positions on the device: where element i of an array that is walked in order lies in
// another one.
#pragma once

#include <cstdint>

#include <demi/shape.h>

#include "kernels/cuda/device_compat.cuh"
#include "src/core/broadcast_layout.h"
#include "src/core/reduction_layout.h"

namespace demi::cuda {

/// offset(i) = Σ index_k(i) · stride_k over axes outermost first; passed to kernels by value.
struct IndexMap {
  int rank = 0;
  int narrow = 1;  ///< flag: all indices fit into 32 bits, whose division is much faster
  std::int64_t extent[Shape::kMaxRank] = {};
  std::int64_t stride[Shape::kMaxRank] = {};

  __device__ std::int64_t offset(std::int64_t index) const {
    return narrow != 0 ? walk(static_cast<std::uint32_t>(index)) : walk(index);
  }

 private:
  template <class Index>
  __device__ std::int64_t walk(Index index) const {
    std::int64_t sum = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const Index n = static_cast<Index>(extent[axis]);
      const Index quotient = index / n;
      sum += static_cast<std::int64_t>(index - quotient * n) * stride[axis];
      index = quotient;
    }
    return rank == 0 ? 0 : sum + static_cast<std::int64_t>(index) * stride[0];
  }
};

/// From BroadcastLayout or StridedAxes.
template <class Layout>
IndexMap index_map(const Layout& layout) {
  IndexMap map;
  map.rank = layout.rank;
  std::int64_t count = 1;
  for (int axis = 0; axis < layout.rank; ++axis) {
    map.extent[axis] = layout.extent[static_cast<std::size_t>(axis)];
    map.stride[axis] = layout.stride[static_cast<std::size_t>(axis)];
    count *= map.extent[axis];
  }
  map.narrow = count <= INT32_MAX ? 1 : 0;
  return map;
}

/// Where each of `rows` rows of `length` elements begins.
inline IndexMap contiguous_rows(std::int64_t rows, std::int64_t length) {
  IndexMap map;
  map.rank = 1;
  map.extent[0] = rows;
  map.stride[0] = length;
  map.narrow = rows <= INT32_MAX ? 1 : 0;
  return map;
}

}  // namespace demi::cuda
