// Tensors of cuDNN in memory, and as dense arrays with the channels last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/cuda_emulator/src/numeric.h"

namespace cuda_emulator {

struct StridedTensor {
  Format format;
  std::array<std::int64_t, 4> extents, strides;  ///< N, C, H, W; of filters K, C, R, S

  [[nodiscard]] std::int64_t count() const {
    return extents[0] * extents[1] * extents[2] * extents[3];
  }
  /// From the first element to the end of the last.
  [[nodiscard]] std::size_t bytes() const;
};

/// The elements in the order N, H, W, C, whatever the strides. T is float or double.
template <class T>
[[nodiscard]] std::vector<T> load_dense(const StridedTensor& tensor, const void* address);

/// The reverse, rounded to the tensor's format.
template <class T>
void store_dense(const StridedTensor& tensor, const std::vector<T>& dense, void* address);

}  // namespace cuda_emulator
