// The filter gradient through a max-pooling. Two ways, by the length of a filter's row, kw · ci:
//   long:  per output channel, the nonzeros of an image are listed; each adds kh rows of the input
//          times itself to the channel's filter, whose rows stay in registers.
//   short: all channels of a window at once, each picking the input of its own maximum's place out
//          of the four candidates of a 2 × 2 window with a shuffle.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/conv2d/check.h"
#include "kernels/cpu/conv2d/pooled_gradient.h"
#include "kernels/cpu/finite.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

constexpr std::int64_t kWantedChunks = 16;
/// Elements of all chunks' sums.
constexpr std::int64_t kMaxSums = std::int64_t{1} << 20;
/// Filter elements whose sums one task adds up.
constexpr std::int64_t kReducedElements = 32;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <class E>
struct Plan {
  Plan(const Conv2DProblem& problem, const PoolWindow& window, int threads);

  PooledGeometry<E> geometry;
  bool select;        ///< the way for short rows
  bool in_place;      ///< x is read where it lies
  std::int64_t taps;  ///< filter elements of a channel, padded
  std::int64_t padded_co;
  std::int64_t sums_size;  ///< lists: [co, kh, padded row]; select: [taps, padded_co]
  std::int64_t chunk_images;
  std::int64_t chunks;
  std::int64_t table_windows;  ///< a row of windows

  std::size_t sums_offset;
  std::size_t thread_offset;
  std::size_t thread_bytes;
  std::size_t box_piece;
  std::size_t g_piece;
  std::size_t entries_piece;
  std::size_t lists_piece;
  std::size_t tables_piece;
  std::size_t turned_piece;
  std::size_t bytes;
};

template <class E>
Plan<E>::Plan(const Conv2DProblem& p, const PoolWindow& window, int threads) : geometry(p, window) {
  const MicroKernels<E>& kernels = geometry.kernels;
  select = window.size_h == 2 && window.size_w == 2 && geometry.row_length < 2 * kernels.lanes;
  in_place = geometry.box_in_place();
  padded_co = kernels.padded(p.co);
  taps = select ? ceil_div(p.kh * geometry.row_length, kSelectTaps) * kSelectTaps : 0;
  sums_size = select ? taps * padded_co : p.co * p.kh * geometry.padded_length;
  chunks = std::clamp<std::int64_t>(std::min(p.n, kMaxSums / sums_size), 1, kWantedChunks);
  chunk_images = std::max<std::int64_t>(1, ceil_div(p.n, chunks));
  chunks = std::max<std::int64_t>(1, ceil_div(p.n, chunk_images));
  table_windows = select ? geometry.out_columns : 0;

  WorkspaceLayout shared;
  sums_offset = shared.reserve<E>(chunks * sums_size);
  thread_offset = shared.bytes();
  WorkspaceLayout own;
  box_piece = own.reserve<E>(in_place ? 0 : geometry.box_elements());
  g_piece = own.reserve<E>(is_half(p.y_dtype) ? geometry.windows * p.co : 0);
  entries_piece = own.reserve<Entry<E>>(select ? 0 : geometry.windows * p.co);
  lists_piece = own.reserve<EntryList>(select ? 0 : p.co);
  tables_piece = own.reserve<E>(table_windows * taps * 4);
  turned_piece = own.reserve<E>(kReducedElements * padded_co);
  thread_bytes = own.bytes();
  bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
}

template <class E>
class FilterGradient {
 public:
  FilterGradient(const Plan<E>& plan, const void* x, const void* g, const std::uint8_t* index,
                 void* dw, void* workspace)
      : plan_(plan),
        geometry_(plan.geometry),
        p_(plan.geometry.p),
        kernels_(plan.geometry.kernels),
        x_(static_cast<const std::byte*>(x)),
        g_(g),
        index_(index),
        dw_(static_cast<std::byte*>(dw)),
        workspace_(workspace),
        sums_(piece<E>(workspace, plan.sums_offset)) {}

  void run(ThreadPool& pool) {
    pool.parallel_for(plan_.chunks,
                      [&](std::int64_t chunk, int thread) { run_chunk(chunk, thread); });
    const std::int64_t slices = ceil_div(geometry_.row_length, kReducedElements);
    pool.parallel_for(p_.kh * slices, [&](std::int64_t chunk, int thread) {
      reduce(chunk / slices, chunk % slices * kReducedElements, thread);
    });
  }

 private:
  [[nodiscard]] void* own(int thread) const {
    return piece<std::byte>(
        workspace_, plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  }
  [[nodiscard]] const std::byte* x_of(std::int64_t image) const {
    return x_ + image * p_.h * p_.w * p_.ci * static_cast<std::int64_t>(size_of(p_.x_dtype));
  }
  void run_chunk(std::int64_t chunk, int thread) const;
  const E* place_x(std::int64_t image, E* box) const;
  void add_by_lists(const E* x, const E* g, const std::uint8_t* index, void* own, E* sums) const;
  void add_by_selection(const E* x, const E* g, const std::uint8_t* index, E* tables,
                        E* sums) const;
  void make_tables(const E* x, std::int64_t first_window, E* table) const;
  void reduce(std::int64_t row, std::int64_t first, int thread) const;

  const Plan<E>& plan_;
  const PooledGeometry<E>& geometry_;
  const Conv2DProblem& p_;
  const MicroKernels<E>& kernels_;
  const std::byte* x_;
  const void* g_;
  const std::uint8_t* index_;
  std::byte* dw_;
  void* workspace_;
  E* sums_;
};

template <class E>
void FilterGradient<E>::run_chunk(std::int64_t chunk, int thread) const {
  void* pieces = own(thread);
  E* sums = sums_ + chunk * plan_.sums_size;
  std::memset(sums, 0, static_cast<std::size_t>(plan_.sums_size) * sizeof(E));
  const std::int64_t end = std::min(p_.n, (chunk + 1) * plan_.chunk_images);
  bool finite = true;
  for (std::int64_t image = chunk * plan_.chunk_images; image < end; ++image) {
    finite = finite && all_finite(x_of(image), p_.x_dtype, p_.h * p_.w * p_.ci);
    const E* x = place_x(image, piece<E>(pieces, plan_.box_piece));
    const E* g = place_gradient(geometry_, g_, image, piece<E>(pieces, plan_.g_piece));
    const std::uint8_t* index = index_ + image * geometry_.windows * p_.co;
    if (plan_.select) {
      add_by_selection(x, g, index, piece<E>(pieces, plan_.tables_piece), sums);
    } else {
      add_by_lists(x, g, index, pieces, sums);
    }
  }
  // Note [Skipped zeros and non-finite values]
  if (!finite) std::fill_n(sums, plan_.sums_size, std::numeric_limits<E>::quiet_NaN());
}

template <class E>
const E* FilterGradient<E>::place_x(std::int64_t image, E* box) const {
  if (plan_.in_place) return reinterpret_cast<const E*>(x_of(image));
  copy_box(kernels_, geometry_.box, x_of(image), p_.x_dtype, -p_.pad_top, box);
  return box;
}

template <class E>
void FilterGradient<E>::add_by_lists(const E* x, const E* g, const std::uint8_t* index, void* own,
                                     E* sums) const {
  auto* entries = piece<Entry<E>>(own, plan_.entries_piece);
  auto* lists = piece<EntryList>(own, plan_.lists_piece);
  const std::int64_t filter_size = p_.kh * geometry_.padded_length;
  std::int32_t place_offsets[256];
  for (std::int64_t place = 0; place < geometry_.places(); ++place) {
    place_offsets[place] = static_cast<std::int32_t>(geometry_.place_offset(place));
  }
  for (std::int64_t c = 0; c < p_.co; ++c) {
    const auto begin = static_cast<std::int32_t>(c * geometry_.windows);
    lists[c] = {begin, begin, c * filter_size};
  }
  for (std::int64_t i = 0; i < geometry_.windows; ++i) {
    const auto window = static_cast<std::int32_t>(geometry_.window_offset(i));
    for (std::int64_t c = 0; c < p_.co; ++c, ++g, ++index) {
      // Always written, counted only if not zero: a branch would be mispredicted every other time.
      entries[lists[c].end] = {*g, window + place_offsets[*index]};
      lists[c].end += *g != 0 ? 1 : 0;
    }
  }
  for (std::int64_t row = 0; row < p_.kh; ++row) {
    sum_lists(kernels_, {.entries = entries,
                         .lists = lists,
                         .list_count = p_.co,
                         .rows = x + row * geometry_.box.pitch(),
                         .sums = sums + row * geometry_.padded_length,
                         .columns = geometry_.padded_length});
  }
}

template <class E>
void FilterGradient<E>::add_by_selection(const E* x, const E* g, const std::uint8_t* index,
                                         E* tables, E* sums) const {
  for (std::int64_t i = 0; i < geometry_.windows; i += geometry_.out_columns) {
    make_tables(x, i, tables);
    kernels_.select({.tables = tables,
                     .windows = geometry_.out_columns,
                     .taps = plan_.taps,
                     .g = g + i * p_.co,
                     .index = index + i * p_.co,
                     .channels = p_.co,
                     .sums = sums,
                     .sums_stride = plan_.padded_co});
  }
}

/// For a row of windows, each filter element's four possible inputs.
template <class E>
void FilterGradient<E>::make_tables(const E* x, std::int64_t first_window, E* table) const {
  const std::int64_t pitch = geometry_.box.pitch();
  const std::int64_t ci = p_.ci;
  const std::int64_t unused = (plan_.taps - p_.kh * geometry_.row_length) * 4;
  const E* window = x + geometry_.window_offset(first_window);
  for (std::int64_t i = 0; i < geometry_.out_columns; ++i) {
    const E* first = window + i * geometry_.window.stride_w * ci;
    for (std::int64_t row = 0; row < p_.kh; ++row, first += pitch) {
      for (std::int64_t c = 0; c < geometry_.row_length; ++c, table += 4) {
        table[0] = first[c];
        table[1] = first[c + ci];
        table[2] = first[c + pitch];
        table[3] = first[c + pitch + ci];
      }
    }
    std::fill_n(table, unused, E{0});
    table += unused;
  }
}

/// Adds up the chunks' sums of some elements of a row of all filters, and stores them.
template <class E>
void FilterGradient<E>::reduce(std::int64_t row, std::int64_t first, int thread) const {
  const std::int64_t count = std::min(kReducedElements, geometry_.row_length - first);
  E* turned = piece<E>(own(thread), plan_.turned_piece);
  if (plan_.select) {
    E* total = sums_ + (row * geometry_.row_length + first) * plan_.padded_co;
    for (std::int64_t chunk = 1; chunk < plan_.chunks; ++chunk) {
      const E* sums = total + chunk * plan_.sums_size;
      for (std::int64_t i = 0; i < count * plan_.padded_co; ++i) total[i] += sums[i];
    }
    turned = total;
  } else {
    E* total = sums_ + row * geometry_.padded_length + first;
    const std::int64_t filter_size = p_.kh * geometry_.padded_length;
    for (std::int64_t c = 0; c < p_.co; ++c) {
      E* filter = total + c * filter_size;
      for (std::int64_t chunk = 1; chunk < plan_.chunks; ++chunk) {
        const E* sums = filter + chunk * plan_.sums_size;
        for (std::int64_t i = 0; i < count; ++i) filter[i] += sums[i];
      }
    }
    kernels_.pack_transposed({.source = {total, Storage::kCompute},
                              .source_stride = filter_size,
                              .rows = count,
                              .columns = p_.co,
                              .out = turned,
                              .width = plan_.padded_co});
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (row * geometry_.row_length + first + i) * p_.co;
    kernels_.unpack(turned + i * plan_.padded_co, p_.co,
                    dw_ + at * static_cast<std::int64_t>(size_of(p_.w_dtype)),
                    storage_of(p_.w_dtype));
  }
}

template <class E>
void run(const Conv2DProblem& problem, const PoolWindow& window, const void* x, const void* g,
         const std::uint8_t* index, void* dw, void* workspace, ThreadPool& pool) {
  const Plan<E> plan(problem, window, pool.threads());
  FilterGradient<E>(plan, x, g, index, dw, workspace).run(pool);
}

}  // namespace

bool conv2d_backward_pooled_supports(const Conv2DProblem& p, const PoolWindow& window) {
  // What a thread's workspace holds of one image.
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 18;
  const std::int64_t box =
      (p.h + p.pad_top + p.pad_bottom) * (p.w + p.pad_left + p.pad_right) * p.ci;
  const std::int64_t entries =
      window.out_h(p.out_h()) * window.out_w(p.out_w()) * window.size_h * window.size_w * p.co;
  return p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 && p.dilation_w == 1 &&
         p.groups == 1 && box <= kMaxElements && entries <= kMaxElements;
}

std::size_t conv2d_backward_filter_pooled_workspace_bytes(const Conv2DProblem& problem,
                                                          const PoolWindow& window, int threads) {
  check_pooled_gradient(problem, window);
  return problem.y_dtype == DType::kFloat64 ? Plan<double>(problem, window, threads).bytes
                                            : Plan<float>(problem, window, threads).bytes;
}

void conv2d_backward_filter_pooled(const Conv2DProblem& problem, const PoolWindow& window,
                                   const void* x, const void* g, const std::uint8_t* index,
                                   void* dw, void* workspace, ThreadPool& pool) {
  check_pooled_gradient(problem, window);
  if (problem.y_dtype == DType::kFloat64) {
    run<double>(problem, window, x, g, index, dw, workspace, pool);
  } else {
    run<float>(problem, window, x, g, index, dw, workspace, pool);
  }
}

}  // namespace demi::cpu
