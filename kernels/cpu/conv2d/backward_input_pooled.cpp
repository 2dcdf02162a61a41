// The input gradient through a max-pooling: each nonzero adds one row of the filter, times itself,
// to kh rows of dx. The channels of a window are sorted by the place of their maximum: those of one
// place add to the same pixels, whose sums then stay in registers.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/cpu/conv2d/check.h"
#include "kernels/cpu/conv2d/pooled_gradient.h"
#include "kernels/cpu/finite.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

/// Filters packed by one task.
constexpr std::int64_t kPackedFilters = 16;

template <class E>
struct Plan {
  Plan(const Conv2DProblem& problem, const PoolWindow& window, int threads)
      : geometry(problem, window),
        in_place(geometry.box_in_place()),
        filter_blocks((problem.co + kPackedFilters - 1) / kPackedFilters) {
    WorkspaceLayout shared;
    filter_offset = shared.reserve<E>(problem.kh * problem.co * geometry.padded_length);
    finite_offset = shared.reserve<bool>(problem.kh * filter_blocks);
    thread_offset = shared.bytes();
    WorkspaceLayout own;
    const std::int64_t lists = geometry.windows * geometry.places();
    box_piece = own.reserve<E>(in_place ? 0 : geometry.box_elements());
    g_piece = own.reserve<E>(is_half(problem.y_dtype) ? geometry.windows * problem.co : 0);
    entries_piece = own.reserve<Entry<E>>(lists * problem.co);
    lists_piece = own.reserve<EntryList>(lists);
    thread_bytes = own.bytes();
    bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
  }

  PooledGeometry<E> geometry;
  bool in_place;
  std::int64_t filter_blocks;
  std::size_t filter_offset;  ///< [kh, co, padded row of the filter]
  std::size_t finite_offset;  ///< [kh, filter_blocks], whether that part of the filter is
  std::size_t thread_offset;
  std::size_t thread_bytes;
  std::size_t box_piece;
  std::size_t g_piece;
  std::size_t entries_piece;
  std::size_t lists_piece;
  std::size_t bytes;
};

template <class E>
class InputGradient {
 public:
  InputGradient(const Plan<E>& plan, const void* w, const void* g, const std::uint8_t* index,
                void* dx, void* workspace)
      : plan_(plan),
        geometry_(plan.geometry),
        p_(plan.geometry.p),
        w_(static_cast<const std::byte*>(w)),
        g_(g),
        index_(index),
        dx_(static_cast<std::byte*>(dx)),
        workspace_(workspace),
        filter_(piece<E>(workspace, plan.filter_offset)),
        finite_(piece<bool>(workspace, plan.finite_offset)) {}

  void run(ThreadPool& pool) {
    const std::int64_t parts = p_.kh * plan_.filter_blocks;
    pool.parallel_for(parts, [&](std::int64_t part, int) {
      finite_[part] =
          pack_filters(part / plan_.filter_blocks, part % plan_.filter_blocks * kPackedFilters);
    });
    filter_is_finite_ = std::all_of(finite_, finite_ + parts, [](bool finite) { return finite; });
    pool.parallel_for(p_.n, [&](std::int64_t image, int thread) { run_image(image, thread); });
  }

 private:
  bool pack_filters(std::int64_t row, std::int64_t first) const;
  void run_image(std::int64_t image, int thread) const;
  std::int64_t make_lists(const E* g, const std::uint8_t* index, Entry<E>* entries,
                          EntryList* lists) const;
  void store_box(const E* box, std::int64_t image) const;

  const Plan<E>& plan_;
  const PooledGeometry<E>& geometry_;
  const Conv2DProblem& p_;
  const std::byte* w_;
  const void* g_;
  const std::uint8_t* index_;
  std::byte* dx_;
  void* workspace_;
  E* filter_;
  bool* finite_;
  bool filter_is_finite_ = true;
};

/// Turns one row of the kernel, [kw · ci, co], round for some of its filters. Returns whether they
/// are finite.
template <class E>
bool InputGradient<E>::pack_filters(std::int64_t row, std::int64_t first) const {
  const std::int64_t element = row * geometry_.row_length * p_.co + first;
  const std::int64_t filters = std::min(kPackedFilters, p_.co - first);
  E* out = filter_ + (row * p_.co + first) * geometry_.padded_length;
  geometry_.kernels.pack_transposed(
      {.source = {w_ + element * static_cast<std::int64_t>(size_of(p_.w_dtype)),
                  storage_of(p_.w_dtype)},
       .source_stride = p_.co,
       .rows = filters,
       .columns = geometry_.row_length,
       .out = out,
       .width = geometry_.padded_length});
  return all_finite(out, dtype_of<E>, filters * geometry_.padded_length);
}

template <class E>
void InputGradient<E>::run_image(std::int64_t image, int thread) const {
  void* own = piece<std::byte>(
      workspace_, plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  auto* entries = piece<Entry<E>>(own, plan_.entries_piece);
  auto* lists = piece<EntryList>(own, plan_.lists_piece);
  const std::int64_t image_elements = p_.h * p_.w * p_.ci;
  E* box = plan_.in_place ? reinterpret_cast<E*>(dx_) + image * image_elements
                          : piece<E>(own, plan_.box_piece);
  const std::int64_t box_elements = plan_.in_place ? image_elements : geometry_.box_elements();
  if (!filter_is_finite_) {
    // Note [Skipped zeros and non-finite values]
    std::fill_n(box, box_elements, std::numeric_limits<E>::quiet_NaN());
    if (!plan_.in_place) store_box(box, image);
    return;
  }
  const E* g = place_gradient(geometry_, g_, image, piece<E>(own, plan_.g_piece));
  const std::int64_t list_count =
      make_lists(g, index_ + image * geometry_.windows * p_.co, entries, lists);
  std::memset(box, 0, static_cast<std::size_t>(box_elements) * sizeof(E));
  // One row of the kernel after the other: its share of the filters stays in the cache.
  for (std::int64_t row = 0; row < p_.kh; ++row) {
    sum_lists(geometry_.kernels, {.entries = entries,
                                  .lists = lists,
                                  .list_count = list_count,
                                  .rows = filter_ + row * p_.co * geometry_.padded_length,
                                  .sums = box + row * geometry_.box.pitch(),
                                  .columns = geometry_.row_length});
  }
  if (!plan_.in_place) store_box(box, image);
}

/// Lists the nonzeros of each window and place. Returns the number of lists.
template <class E>
std::int64_t InputGradient<E>::make_lists(const E* g, const std::uint8_t* index, Entry<E>* entries,
                                          EntryList* lists) const {
  const std::int64_t places = geometry_.places();
  const auto filter_size = static_cast<std::int32_t>(geometry_.padded_length);
  EntryList* list = lists;
  for (std::int64_t i = 0; i < geometry_.windows; ++i, list += places) {
    for (std::int64_t place = 0; place < places; ++place) {
      const auto begin = static_cast<std::int32_t>((i * places + place) * p_.co);
      list[place] = {begin, begin, geometry_.window_offset(i) + geometry_.place_offset(place)};
    }
    for (std::int64_t c = 0; c < p_.co; ++c) {
      // Always written, counted only if not zero: a branch would be mispredicted every other time.
      EntryList& chosen = list[*index++];
      entries[chosen.end] = {*g, static_cast<std::int32_t>(c) * filter_size};
      chosen.end += *g++ != 0 ? 1 : 0;
    }
  }
  return list - lists;
}

/// Stores the box without the padding.
template <class E>
void InputGradient<E>::store_box(const E* box, std::int64_t image) const {
  const std::int64_t length = p_.w * p_.ci;
  const std::int64_t pitch = geometry_.box.pitch();
  const E* row = box + p_.pad_top * pitch + p_.pad_left * p_.ci;
  const std::int64_t joined = pitch == length ? p_.h : 1;
  for (std::int64_t i = 0; i < p_.h; i += joined) {
    const std::int64_t at = (image * p_.h + i) * length;
    geometry_.kernels.unpack(row + i * pitch, joined * length,
                             dx_ + at * static_cast<std::int64_t>(size_of(p_.x_dtype)),
                             storage_of(p_.x_dtype));
  }
}

template <class E>
void run(const Conv2DProblem& problem, const PoolWindow& window, const void* w, const void* g,
         const std::uint8_t* index, void* dx, void* workspace, ThreadPool& pool) {
  const Plan<E> plan(problem, window, pool.threads());
  InputGradient<E>(plan, w, g, index, dx, workspace).run(pool);
}

}  // namespace

std::size_t conv2d_backward_input_pooled_workspace_bytes(const Conv2DProblem& problem,
                                                         const PoolWindow& window, int threads) {
  check_pooled_gradient(problem, window);
  return problem.y_dtype == DType::kFloat64 ? Plan<double>(problem, window, threads).bytes
                                            : Plan<float>(problem, window, threads).bytes;
}

void conv2d_backward_input_pooled(const Conv2DProblem& problem, const PoolWindow& window,
                                  const void* w, const void* g, const std::uint8_t* index, void* dx,
                                  void* workspace, ThreadPool& pool) {
  check_pooled_gradient(problem, window);
  if (problem.y_dtype == DType::kFloat64) {
    run<double>(problem, window, w, g, index, dx, workspace, pool);
  } else {
    run<float>(problem, window, w, g, index, dx, workspace, pool);
  }
}

}  // namespace demi::cpu
