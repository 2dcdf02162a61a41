// The inner loops of matrix products and convolutions, one table of them per instruction set.
//
// Note [One micro-kernel]
// Matrix products, convolutions and their gradients all are
//   C[i, j] = Σ_s A_i[a_steps[s]] · B[s · b_stride + j]
// for rows i at arbitrary addresses. A row is a row of a matrix, an output pixel of a convolution
// (its steps: the filter taps and their channels), or a filter element of a filter gradient (its
// steps: the output pixels). So nothing is ever copied to a matrix of image patches, and one
// register-blocked loop serves all.
#pragma once

#include <cstdint>

#include <demi/dtype.h>

namespace demi::cpu {

/// How a value of compute type E (float or double) lies in memory.
enum class Storage : std::uint8_t { kCompute, kFloat16, kBFloat16 };

[[nodiscard]] constexpr Storage storage_of(DType dtype) {
  if (dtype == DType::kFloat16) return Storage::kFloat16;
  return dtype == DType::kBFloat16 ? Storage::kBFloat16 : Storage::kCompute;
}

/// Read-only values of some storage.
struct Source {
  const void* data;
  Storage storage;
};

/// A panel of C: `rows` rows of `columns` columns, at most as many as the panel kernel is wide.
template <class E>
struct PanelJob {
  const E* a;
  const std::int64_t* a_offsets;  ///< [rows], elements
  const std::int32_t* a_steps;    ///< [depth], elements
  std::int64_t depth;             ///< steps of the sum
  /// Rows come in runs of so many, beginning with the first, within which offsets grow by one: such
  /// rows need one address. 0: not known.
  std::int64_t row_run;
  const E* b;  ///< readable for the panel's whole width at every step
  std::int64_t b_stride;
  /// What the sums start from, [rows] at this stride (0: a bias) and the panel's whole width; null:
  /// zero.
  const E* init;
  std::int64_t init_stride;
  void* c;
  Storage c_storage;
  const std::int64_t* c_offsets;  ///< [rows], elements; null: row · c_stride
  std::int64_t c_stride;
  bool relu;
  std::int64_t rows;
  std::int64_t columns;
};

/// A max-pooling of a panel of values. Lengths are in elements.
template <class E>
struct PoolJob {
  const E* values;  ///< [rows, columns, width], width = whole vectors
  std::int64_t width;
  std::int64_t row_stride;
  std::int64_t out_rows;
  std::int64_t out_columns;
  std::int64_t size_h;
  std::int64_t size_w;
  std::int64_t stride_h;
  std::int64_t stride_w;
  void* y;  ///< [out_rows · out_columns] places, `y_stride` apart, `channels` (≤ width) at each
  Storage y_storage;
  std::uint8_t* index;
  std::int64_t y_stride;
  std::int64_t channels;
};

/// A panel of sums over 2 × 2 windows of pixels, max-pooled before they leave the registers.
template <class E>
struct WindowsJob {
  const E* a;
  const std::int64_t* a_offsets;  ///< [windows], of the first pixel
  std::int64_t to_right;          ///< from there to the pixel on the right, and below
  std::int64_t to_below;
  const std::int32_t* a_steps;  ///< [depth]
  std::int64_t depth;
  const E* b;
  std::int64_t b_stride;
  const E* init;  ///< [panel's whole width] or null
  bool relu;
  void* y;  ///< window by window, `y_stride` apart
  Storage y_storage;
  std::uint8_t* index;
  std::int64_t y_stride;
  std::int64_t windows;
  std::int64_t columns;
};

/// Copies a matrix [rows, columns] of any storage to E.
template <class E>
struct PackJob {
  Source source;
  std::int64_t source_stride;  ///< from one row (transposed: column) to the next
  std::int64_t rows;
  std::int64_t columns;
  E* out;  ///< [rows, width], zero from `columns` on
  std::int64_t width;
};

/// One nonzero value of a sparse gradient, and where the row it scales lies.
template <class E>
struct Entry {
  E value;
  std::int32_t offset;
};

/// Entries [begin, end) of a ListsJob and the place of their sum.
struct EntryList {
  std::int32_t begin;
  std::int32_t end;
  std::int64_t target;
};

/// For each list: sums[target + j] += Σ value · rows[offset + j] over its entries, for j < columns.
template <class E>
struct ListsJob {
  const Entry<E>* entries;
  const EntryList* lists;
  std::int64_t list_count;
  const E* rows;  ///< readable for whole vectors, as are the sums
  E* sums;
  std::int64_t columns;  ///< the last vector may be partial
};

/// sums[t · sums_stride + c] += Σ over windows of g · table(window, t)[index], for c < channels.
template <class E>
struct SelectJob {
  const E* tables;  ///< [windows, taps, 4]
  std::int64_t windows;
  std::int64_t taps;  ///< a multiple of kSelectTaps
  const E* g;         ///< [windows, channels]
  const std::uint8_t* index;
  std::int64_t channels;
  E* sums;  ///< [taps, sums_stride], sums_stride = whole vectors
  std::int64_t sums_stride;
};
inline constexpr std::int64_t kSelectTaps = 9;

template <class E>
struct MicroKernels {
  static constexpr int kMaxVectors = 4;
  static constexpr int kMaxListVectors = 12;

  std::int64_t lanes;        ///< of a vector
  std::int64_t panel_width;  ///< of the widest panel, in columns
  /// panels[v - 1] computes a panel v vectors wide.
  void (*panels[kMaxVectors])(const PanelJob<E>& job);
  void (*pack)(const PackJob<E>& job);
  /// The same for a matrix stored [columns, rows].
  void (*pack_transposed)(const PackJob<E>& job);
  /// Writes `count` values as `storage`.
  void (*unpack)(const E* values, std::int64_t count, void* out, Storage storage);
  void (*pool)(const PoolJob<E>& job);
  /// As `panels`.
  void (*windows[kMaxVectors])(const WindowsJob<E>& job);
  /// lists[v - 1] computes sums v vectors wide.
  void (*lists[kMaxListVectors])(const ListsJob<E>& job);
  void (*select)(const SelectJob<E>& job);

  /// Panels a matrix of `columns` columns is cut into; all but the last are panel_width wide.
  [[nodiscard]] std::int64_t panel_count(std::int64_t columns) const {
    return (columns + panel_width - 1) / panel_width;
  }
  /// Columns rounded up to whole vectors.
  [[nodiscard]] std::int64_t padded(std::int64_t columns) const {
    return (columns + lanes - 1) / lanes * lanes;
  }
  /// Width of a panel that has `columns` columns left, in whole vectors.
  [[nodiscard]] std::int64_t width_of(std::int64_t columns) const {
    return columns < panel_width ? padded(columns) : panel_width;
  }
  void run_panel(std::int64_t width, const PanelJob<E>& job) const {
    panels[width / lanes - 1](job);
  }
};

/// The best kernels this processor runs. E is float or double.
template <class E>
[[nodiscard]] const MicroKernels<E>& microkernels();

/// Those compiled for the instruction set of the whole library.
template <class E>
[[nodiscard]] const MicroKernels<E>& baseline_microkernels();

/// Null where this build lacks them. To be called only if the processor has AVX-512.
template <class E>
[[nodiscard]] const MicroKernels<E>* avx512_microkernels();

}  // namespace demi::cpu
