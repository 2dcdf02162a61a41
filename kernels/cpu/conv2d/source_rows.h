// Rows of NHWC images with their zero padding, as compute-type values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <demi/dtype.h>

#include "kernels/cpu/microkernels.h"

namespace demi::cpu {

/// A box of rows × columns, over images of h × w × c, that may stick out on every side.
struct SourceBox {
  std::int64_t h;
  std::int64_t w;
  std::int64_t c;
  std::int64_t first_column;
  std::int64_t rows;
  std::int64_t columns;

  [[nodiscard]] std::int64_t pitch() const { return columns * c; }
  /// Elements of a buffer for one box; see copy_box.
  [[nodiscard]] std::int64_t elements() const {
    return rows * pitch() + std::max<std::int64_t>(0, -first_column) * c;
  }
};

/// Copies the box whose first row is `first_row` of the image at `image` to `out` [rows, columns,
/// c]. Writes box.elements(): after the last row come as many zeros as before the first column.
template <class E>
void copy_box(const MicroKernels<E>& kernels, const SourceBox& box, const void* image, DType dtype,
              std::int64_t first_row, E* out) {
  const std::int64_t begin = std::clamp<std::int64_t>(-first_row, 0, box.rows);
  const std::int64_t end = std::clamp<std::int64_t>(box.h - first_row, begin, box.rows);
  const std::int64_t left = std::max<std::int64_t>(0, -box.first_column);
  const std::int64_t column = std::max<std::int64_t>(0, box.first_column);
  const std::int64_t columns = std::min(box.w, box.first_column + box.columns) - column;
  if (begin == end || columns <= 0) {
    std::memset(out, 0, static_cast<std::size_t>(box.elements()) * sizeof(E));
    return;
  }
  // Each row is written from its first value to the next row's first value, zeros between.
  E* first = out + begin * box.pitch() + left * box.c;
  E* last = out + end * box.pitch() + left * box.c;
  std::memset(out, 0, static_cast<std::size_t>(first - out) * sizeof(E));
  const std::int64_t element = ((first_row + begin) * box.w + column) * box.c;
  kernels.pack({.source = {static_cast<const std::byte*>(image) +
                               element * static_cast<std::int64_t>(size_of(dtype)),
                           storage_of(dtype)},
                .source_stride = box.w * box.c,
                .rows = end - begin,
                .columns = columns * box.c,
                .out = first,
                .width = box.pitch()});
  std::memset(last, 0, static_cast<std::size_t>(out + box.elements() - last) * sizeof(E));
}

}  // namespace demi::cpu
