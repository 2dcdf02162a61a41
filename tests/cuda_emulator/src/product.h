// The matrix product under the emulated libraries.
#pragma once

#include <cstdint>

namespace cuda_emulator {

/// A matrix by strides: element (i, j) is data[i * row_stride + j * column_stride].
template <class T>
struct MatrixView {
  const T* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

struct ProductExtents {
  std::int64_t m, n, k;
};

/// c (m × n, rows `ldc` apart) += a (m × k) · b (k × n), in T (float or double). The sums over k
/// are added in blocks of 256.
template <class T>
void multiply_add(ProductExtents extents, MatrixView<T> a, MatrixView<T> b, T* c, std::int64_t ldc);

}  // namespace cuda_emulator
