// What the gradients through a max-pooling share: the geometry, and the nonzeros of an image.
//
// The gradient of the convolution's output is zero but at one pixel per window and channel. With
// stride 1 that pixel (i, j) is also where its filter window starts in the padded input, so a box
// of the padded input and one element offset per nonzero say it all.
//
// Note [Skipped zeros and non-finite values]
// A dense sum would meet 0 · inf = NaN where a zero of the gradient stands against an x or w that
// is not finite; skipping the zero would hide it. And nothing else need show it: an x of inf can
// give -inf in the forward pass, which ReLU or a larger neighbour in its window turns into a
// number, so the loss is finite. The check of the gradients is then the only one left to find it,
// hence these kernels look at x (for dw) or w (for dx) themselves, once, and if anything is not
// finite their whole result is NaN. (The dense result has its NaNs at the taps and channels that
// meet the value; a step is skipped for either.) The gradient itself is looked at element by
// element: a NaN is not zero.
#pragma once

#include <cstdint>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/conv2d/source_rows.h"
#include "kernels/cpu/microkernels.h"

namespace demi::cpu {

template <class E>
struct PooledGeometry {
  PooledGeometry(const Conv2DProblem& problem, const PoolWindow& pool_window)
      : p(problem),
        window(pool_window),
        out_columns(window.out_w(p.out_w())),
        windows(window.out_h(p.out_h()) * out_columns),
        row_length(p.kw * p.ci),
        padded_length(kernels.padded(row_length)),
        box{.h = p.h,
            .w = p.w,
            .c = p.ci,
            .first_column = -p.pad_left,
            .rows = p.h + p.pad_top + p.pad_bottom,
            .columns = p.w + p.pad_left + p.pad_right} {}

  /// Where in the box the window's first pixel is.
  [[nodiscard]] std::int64_t window_offset(std::int64_t i) const {
    return i / out_columns * window.stride_h * box.pitch() +
           i % out_columns * window.stride_w * p.ci;
  }
  /// How far from there a place in the window is.
  [[nodiscard]] std::int64_t place_offset(std::int64_t place) const {
    return place / window.size_w * box.pitch() + place % window.size_w * p.ci;
  }
  [[nodiscard]] std::int64_t places() const { return window.size_h * window.size_w; }
  /// Elements of a box of the input that vectors may read past its end.
  [[nodiscard]] std::int64_t box_elements() const { return box.elements() + kernels.lanes; }
  /// Whether an image of the input is such a box already.
  [[nodiscard]] bool box_in_place() const {
    return !is_half(p.x_dtype) && p.pad_top + p.pad_bottom + p.pad_left + p.pad_right == 0 &&
           row_length == padded_length;
  }

  const MicroKernels<E>& kernels = microkernels<E>();
  const Conv2DProblem& p;
  const PoolWindow& window;
  std::int64_t out_columns;
  std::int64_t windows;  ///< of an image
  /// A filter window is kh rows of the box, each so long, and in whole vectors.
  std::int64_t row_length;
  std::int64_t padded_length;
  SourceBox box;
};

/// The gradient of one image as E: where it lies, or converted to `buffer` [windows, co].
template <class E>
const E* place_gradient(const PooledGeometry<E>& geometry, const void* g, std::int64_t image,
                        E* buffer) {
  const std::int64_t count = geometry.windows * geometry.p.co;
  const std::byte* source = static_cast<const std::byte*>(g) +
                            image * count * static_cast<std::int64_t>(size_of(geometry.p.y_dtype));
  if (!is_half(geometry.p.y_dtype)) return reinterpret_cast<const E*>(source);
  geometry.kernels.pack({.source = {source, storage_of(geometry.p.y_dtype)},
                         .source_stride = count,
                         .rows = 1,
                         .columns = count,
                         .out = buffer,
                         .width = count});
  return buffer;
}

/// Adds `columns` elements per list, as many vectors at a time as registers hold.
template <class E>
void sum_lists(const MicroKernels<E>& kernels, const ListsJob<E>& job) {
  const std::int64_t vectors = kernels.padded(job.columns) / kernels.lanes;
  const std::int64_t blocks =
      (vectors + MicroKernels<E>::kMaxListVectors - 1) / MicroKernels<E>::kMaxListVectors;
  ListsJob<E> block = job;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t first = vectors * i / blocks;
    const std::int64_t count = vectors * (i + 1) / blocks - first;
    block.rows = job.rows + first * kernels.lanes;
    block.sums = job.sums + first * kernels.lanes;
    block.columns = job.columns - first * kernels.lanes;
    if (block.columns > count * kernels.lanes) block.columns = count * kernels.lanes;
    kernels.lists[count - 1](block);
  }
}

}  // namespace demi::cpu
