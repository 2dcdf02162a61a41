#include "tests/cuda_emulator/src/product.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace cuda_emulator {
namespace {

// Tiles as large as the registers allow, panels that stay in the caches.
constexpr std::int64_t kTileRows = 6;
template <class T>
constexpr std::int64_t kTileColumns = 64 / sizeof(T);
constexpr std::int64_t kBlockRows = 96;
constexpr std::int64_t kBlockColumns = 1024;
constexpr std::int64_t kBlockDepth = 256;

template <class T>
using Vector [[gnu::vector_size(32)]] = T;

/// Copies a block, one panel of `width` rows after another, each by columns; the last is padded
/// with zeros.
template <class T>
void pack(MatrixView<T> from, std::int64_t rows, std::int64_t columns, std::int64_t width, T* to) {
  for (std::int64_t first = 0; first < rows; first += width) {
    const std::int64_t live = std::min(width, rows - first);
    for (std::int64_t j = 0; j < columns; ++j, to += width) {
      const T* source = from.data + first * from.row_stride + j * from.column_stride;
      for (std::int64_t i = 0; i < live; ++i) to[i] = source[i * from.row_stride];
      std::fill(to + live, to + width, T{0});
    }
  }
}

/// c += a · b for one tile, of which `rows` × `columns` are wanted.
template <class T>
void multiply_tile(std::int64_t depth, const T* a, const T* b, T* c, std::int64_t ldc,
                   std::int64_t rows, std::int64_t columns) {
  constexpr std::size_t kLanes = sizeof(Vector<T>) / sizeof(T);
  struct alignas(32) Row {
    Vector<T> low, high;
  };
  static_assert(sizeof(Row) == sizeof(T) * kTileColumns<T>);
  Row sums[kTileRows] = {};
  for (std::int64_t p = 0; p < depth; ++p, a += kTileRows, b += kTileColumns<T>) {
    Row factor;
    __builtin_memcpy(&factor.low, b, sizeof(Vector<T>));
    __builtin_memcpy(&factor.high, b + kLanes, sizeof(Vector<T>));
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((sums[I].low += a[I] * factor.low, sums[I].high += a[I] * factor.high), ...);
    }
    (std::make_index_sequence<kTileRows>{});
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    T row[kTileColumns<T>];
    __builtin_memcpy(row, &sums[i], sizeof(row));
    for (std::int64_t j = 0; j < columns; ++j) c[i * ldc + j] += row[j];
  }
}

std::int64_t padded(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

template <class T>
void multiply_add(ProductExtents extents, MatrixView<T> a, MatrixView<T> b, T* c,
                  std::int64_t ldc) {
  const auto [m, n, k] = extents;
  std::vector<T> a_block(static_cast<std::size_t>(padded(std::min(m, kBlockRows), kTileRows) *
                                                  std::min(k, kBlockDepth)));
  std::vector<T> b_block(static_cast<std::size_t>(
      padded(std::min(n, kBlockColumns), kTileColumns<T>) * std::min(k, kBlockDepth)));
  for (std::int64_t j0 = 0; j0 < n; j0 += kBlockColumns) {
    const std::int64_t columns = std::min(kBlockColumns, n - j0);
    for (std::int64_t p0 = 0; p0 < k; p0 += kBlockDepth) {
      const std::int64_t depth = std::min(kBlockDepth, k - p0);
      const MatrixView<T> b_transposed = {b.data + p0 * b.row_stride + j0 * b.column_stride,
                                          b.column_stride, b.row_stride};
      pack(b_transposed, columns, depth, kTileColumns<T>, b_block.data());
      for (std::int64_t i0 = 0; i0 < m; i0 += kBlockRows) {
        const std::int64_t rows = std::min(kBlockRows, m - i0);
        const MatrixView<T> a_part = {a.data + i0 * a.row_stride + p0 * a.column_stride,
                                      a.row_stride, a.column_stride};
        pack(a_part, rows, depth, kTileRows, a_block.data());
        for (std::int64_t j = 0; j < columns; j += kTileColumns<T>) {
          for (std::int64_t i = 0; i < rows; i += kTileRows) {
            multiply_tile(depth, a_block.data() + i * depth, b_block.data() + j * depth,
                          c + (i0 + i) * ldc + j0 + j, ldc, std::min(kTileRows, rows - i),
                          std::min(kTileColumns<T>, columns - j));
          }
        }
      }
    }
  }
}

template void multiply_add(ProductExtents, MatrixView<float>, MatrixView<float>, float*,
                           std::int64_t);
template void multiply_add(ProductExtents, MatrixView<double>, MatrixView<double>, double*,
                           std::int64_t);

}  // namespace cuda_emulator
