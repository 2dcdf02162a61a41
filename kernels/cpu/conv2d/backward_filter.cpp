// The filter gradient: dw[tap, c, o] = Σ over images and output pixels of x[pixel + tap, c] ·
// dy[pixel, o].
//
// In terms of Note [One micro-kernel] a row is a filter element (tap, c), the columns are output
// channels, and the steps of the sum are output pixels. The batch is cut into chunks, each
// with its own sums, which are added in order at the end.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv2d/check.h"
#include "kernels/cpu/conv2d/source_rows.h"
#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

/// Elements of x or dy in a strip of output rows.
constexpr std::int64_t kMaxStrip = 48 * 1024;
/// Strips take in further images until they have so many pixels.
constexpr std::int64_t kMinPixels = 64;
constexpr std::int64_t kWantedChunks = 16;
constexpr std::int64_t kMinElements = 48;
/// Elements of all chunks' sums.
constexpr std::int64_t kMaxSums = std::int64_t{1} << 20;
/// Up to so many channels, a panel of dy is read in place: further apart, its pixels would compete
/// for a few places of the cache.
constexpr std::int64_t kMaxChannelsInPlace = 64;
/// Filter elements whose sums one task adds up.
constexpr std::int64_t kReducedRows = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <class E>
struct Plan {
  Plan(const Conv2DProblem& problem, int threads);
  void choose_strips();
  void choose_chunks();
  void reserve(int threads);

  [[nodiscard]] std::int64_t box_rows(std::int64_t rows) const {
    return (rows - 1) * p.stride_h + (p.kh - 1) * p.dilation_h + 1;
  }

  const Conv2DProblem& p;
  const MicroKernels<E>& kernels = microkernels<E>();
  std::int64_t ci;        ///< of a group
  std::int64_t co;        ///< of a group
  std::int64_t elements;  ///< filter elements (tap, c) of a group
  std::int64_t padded_co;
  std::int64_t panels;  ///< of a group
  SourceBox box;
  std::int64_t rows;  ///< output rows of a strip
  std::int64_t strips;
  std::int64_t images;  ///< of a strip
  bool x_in_place;
  bool dy_in_place;
  std::int64_t pitch;
  std::int64_t image_pitch;
  std::int64_t batch_chunks;
  std::int64_t chunk_images;  ///< whole strips
  std::int64_t element_chunks;
  std::int64_t chunk_elements;
  std::int64_t sums_size;  ///< elements of one chunk's sums, [groups, panels, elements, width]

  std::size_t sums_offset;
  std::size_t offsets_offset;
  std::size_t steps_offset;
  std::size_t thread_offset;
  std::size_t thread_bytes;
  std::size_t box_piece;
  std::size_t dy_piece;
  std::size_t bytes;
};

template <class E>
Plan<E>::Plan(const Conv2DProblem& problem, int threads) : p(problem) {
  ci = p.ci / p.groups;
  co = p.co / p.groups;
  elements = p.kh * p.kw * ci;
  padded_co = kernels.padded(co);
  panels = kernels.panel_count(co);
  box = {.h = p.h,
         .w = p.w,
         .c = p.ci,
         .first_column = -p.pad_left,
         .rows = 0,
         .columns = (p.out_w() - 1) * p.stride_w + (p.kw - 1) * p.dilation_w + 1};
  choose_strips();
  x_in_place = !is_half(p.x_dtype) && p.pad_top == 0 && p.pad_left == 0 &&
               box_rows(p.out_h()) <= p.h && box.columns <= p.w;
  dy_in_place = !is_half(p.y_dtype) && co % kernels.lanes == 0 && p.co <= kMaxChannelsInPlace;
  pitch = x_in_place ? p.w * p.ci : box.pitch();
  image_pitch = x_in_place ? p.h * pitch : box.elements();
  choose_chunks();
  reserve(threads);
}

template <class E>
void Plan<E>::choose_strips() {
  rows = p.out_h();
  while (rows > 1 && std::max(box_rows(rows) * box.pitch(), rows * p.out_w() * p.co) > kMaxStrip) {
    rows = ceil_div(rows, 2);
  }
  strips = ceil_div(p.out_h(), rows);
  rows = ceil_div(p.out_h(), strips);
  box.rows = box_rows(rows);
  images = 1;
  if (strips == 1) {
    images = std::clamp<std::int64_t>(
        std::min(ceil_div(kMinPixels, rows * p.out_w()),
                 kMaxStrip / std::max(box.elements(), rows * p.out_w() * p.co)),
        1, std::max<std::int64_t>(p.n, 1));
  }
}

template <class E>
void Plan<E>::choose_chunks() {
  sums_size = p.groups * padded_co * elements;
  const std::int64_t image_strips = ceil_div(p.n, images);
  batch_chunks =
      std::clamp<std::int64_t>(std::min(image_strips, kMaxSums / sums_size), 1, kWantedChunks);
  chunk_images = std::max<std::int64_t>(1, ceil_div(image_strips, batch_chunks)) * images;
  batch_chunks = std::max<std::int64_t>(1, ceil_div(p.n, chunk_images));
  // Whole taps, and enough elements to be worth placing x and dy once more.
  const std::int64_t wanted = ceil_div(kWantedChunks, batch_chunks * p.groups);
  const std::int64_t least = std::max(kMinElements, ceil_div(elements, wanted));
  chunk_elements = std::min(elements, ceil_div(least, ci) * ci);
  element_chunks = ceil_div(elements, chunk_elements);
}

template <class E>
void Plan<E>::reserve(int threads) {
  WorkspaceLayout shared;
  sums_offset = shared.reserve<E>(batch_chunks * sums_size);
  offsets_offset = shared.reserve<std::int64_t>(elements);
  steps_offset = shared.reserve<std::int32_t>(images * rows * p.out_w());
  thread_offset = shared.bytes();
  WorkspaceLayout own;
  box_piece = own.reserve<E>(x_in_place ? 0 : images * image_pitch);
  dy_piece = own.reserve<E>(dy_in_place ? 0 : images * rows * p.out_w() * p.groups * padded_co);
  thread_bytes = own.bytes();
  bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
}

template <class E>
class FilterGradient {
 public:
  FilterGradient(const Plan<E>& plan, const void* x, const void* dy, void* dw, void* workspace)
      : plan_(plan),
        p_(plan.p),
        kernels_(plan.kernels),
        x_(static_cast<const std::byte*>(x)),
        dy_(static_cast<const std::byte*>(dy)),
        dw_(static_cast<std::byte*>(dw)),
        workspace_(workspace),
        sums_(piece<E>(workspace, plan.sums_offset)),
        offsets_(piece<std::int64_t>(workspace, plan.offsets_offset)),
        steps_(piece<std::int32_t>(workspace, plan.steps_offset)) {}

  void run(ThreadPool& pool) {
    prepare();
    pool.parallel_for(plan_.batch_chunks * p_.groups * plan_.element_chunks,
                      [&](std::int64_t chunk, int thread) { run_chunk(chunk, thread); });
    const std::int64_t slices = ceil_div(plan_.elements, kReducedRows);
    pool.parallel_for(p_.groups * plan_.panels * slices, [&](std::int64_t chunk, int) {
      reduce(chunk / slices, chunk % slices * kReducedRows);
    });
  }

 private:
  /// A group's panels for a strip's images, rows and pixels.
  struct Strip {
    std::int64_t image;
    std::int64_t images;
    std::int64_t row;
    std::int64_t rows;
    [[nodiscard]] std::int64_t pixels(const Conv2DProblem& p) const {
      return images * rows * p.out_w();
    }
  };

  void prepare();
  void run_chunk(std::int64_t chunk, int thread) const;
  const E* place_x(const Strip& strip, E* box) const;
  void place_dy(const Strip& strip, std::int64_t group, std::int64_t column, E* panel,
                PanelJob<E>& job) const;
  void reduce(std::int64_t panel, std::int64_t first) const;

  const Plan<E>& plan_;
  const Conv2DProblem& p_;
  const MicroKernels<E>& kernels_;
  const std::byte* x_;
  const std::byte* dy_;
  std::byte* dw_;
  void* workspace_;
  E* sums_;
  std::int64_t* offsets_;
  std::int32_t* steps_;
};

template <class E>
void FilterGradient<E>::prepare() {
  for (std::int64_t i = 0; i < plan_.elements; ++i) {
    const std::int64_t tap = i / plan_.ci;
    offsets_[i] = tap / p_.kw * p_.dilation_h * plan_.pitch + tap % p_.kw * p_.dilation_w * p_.ci +
                  i % plan_.ci;
  }
  for (std::int64_t i = 0; i < plan_.images * plan_.rows * p_.out_w(); ++i) {
    const std::int64_t row = i / p_.out_w();
    steps_[i] = static_cast<std::int32_t>(row / plan_.rows * plan_.image_pitch +
                                          row % plan_.rows * p_.stride_h * plan_.pitch +
                                          i % p_.out_w() * p_.stride_w * p_.ci);
  }
}

template <class E>
void FilterGradient<E>::run_chunk(std::int64_t chunk, int thread) const {
  void* own = piece<std::byte>(
      workspace_, plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  const std::int64_t element = chunk % plan_.element_chunks * plan_.chunk_elements;
  const std::int64_t group = chunk / plan_.element_chunks % p_.groups;
  const std::int64_t batch = chunk / plan_.element_chunks / p_.groups;
  const std::int64_t end = std::min(p_.n, (batch + 1) * plan_.chunk_images);
  PanelJob<E> job{};
  job.a_offsets = offsets_ + element;
  job.a_steps = steps_;
  job.row_run = plan_.ci;
  job.rows = std::min(plan_.chunk_elements, plan_.elements - element);
  E* sums = sums_ + batch * plan_.sums_size + group * plan_.padded_co * plan_.elements;
  for (std::int64_t image = batch * plan_.chunk_images; image < end; image += plan_.images) {
    for (std::int64_t row = 0; row < p_.out_h(); row += plan_.rows) {
      const Strip strip{image, std::min(plan_.images, end - image), row,
                        std::min(plan_.rows, p_.out_h() - row)};
      job.a = place_x(strip, piece<E>(own, plan_.box_piece)) + group * plan_.ci;
      job.depth = strip.pixels(p_);
      for (std::int64_t column = 0; column < plan_.co; column += kernels_.panel_width) {
        const std::int64_t width = kernels_.width_of(plan_.co - column);
        place_dy(strip, group, column, piece<E>(own, plan_.dy_piece), job);
        E* panel_sums = sums + column * plan_.elements + element * width;
        job.init = row > 0 || image > batch * plan_.chunk_images ? panel_sums : nullptr;
        job.c = panel_sums;
        job.init_stride = job.c_stride = job.columns = width;
        kernels_.run_panel(width, job);
      }
    }
  }
  if (p_.n == 0) {
    std::memset(sums, 0, static_cast<std::size_t>(plan_.sums_size / p_.groups) * sizeof(E));
  }
}

/// Where the strip's input starts: in x itself, or copied to `box`.
template <class E>
const E* FilterGradient<E>::place_x(const Strip& strip, E* box) const {
  const std::int64_t image_elements = p_.h * p_.w * p_.ci;
  const std::int64_t row = strip.row * p_.stride_h - p_.pad_top;
  if (plan_.x_in_place) {
    return reinterpret_cast<const E*>(x_) + strip.image * image_elements + row * plan_.pitch;
  }
  for (std::int64_t i = 0; i < strip.images; ++i) {
    copy_box(
        kernels_, plan_.box,
        x_ + (strip.image + i) * image_elements * static_cast<std::int64_t>(size_of(p_.x_dtype)),
        p_.x_dtype, row, box + i * plan_.image_pitch);
  }
  return box;
}

/// Points job's B at the panel of dy whose first channel of the group is `column`.
template <class E>
void FilterGradient<E>::place_dy(const Strip& strip, std::int64_t group, std::int64_t column,
                                 E* panel, PanelJob<E>& job) const {
  const std::int64_t pixel = (strip.image * p_.out_h() + strip.row) * p_.out_w();
  const std::byte* dy = dy_ + (pixel * p_.co + group * plan_.co + column) *
                                  static_cast<std::int64_t>(size_of(p_.y_dtype));
  if (plan_.dy_in_place) {
    job.b = reinterpret_cast<const E*>(dy);
    job.b_stride = p_.co;
    return;
  }
  const std::int64_t width = kernels_.width_of(plan_.co - column);
  kernels_.pack({.source = {dy, storage_of(p_.y_dtype)},
                 .source_stride = p_.co,
                 .rows = strip.pixels(p_),
                 .columns = std::min(width, plan_.co - column),
                 .out = panel,
                 .width = width});
  job.b = panel;
  job.b_stride = width;
}

/// Adds up the chunks' sums of some filter elements of a panel, and stores them.
template <class E>
void FilterGradient<E>::reduce(std::int64_t panel, std::int64_t first) const {
  const std::int64_t group = panel / plan_.panels;
  const std::int64_t column = panel % plan_.panels * kernels_.panel_width;
  const std::int64_t width = kernels_.width_of(plan_.co - column);
  const std::int64_t columns = std::min(width, plan_.co - column);
  const std::int64_t rows = std::min(kReducedRows, plan_.elements - first);
  E* total = sums_ + (group * plan_.padded_co + column) * plan_.elements + first * width;
  for (std::int64_t chunk = 1; chunk < plan_.batch_chunks; ++chunk) {
    const E* sums = total + chunk * plan_.sums_size;
    for (std::int64_t i = 0; i < rows * width; ++i) total[i] += sums[i];
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = (first + i) * p_.co + group * plan_.co + column;
    kernels_.unpack(total + i * width, columns,
                    dw_ + at * static_cast<std::int64_t>(size_of(p_.w_dtype)),
                    storage_of(p_.w_dtype));
  }
}

template <class E>
void run(const Conv2DProblem& problem, const void* x, const void* dy, void* dw, void* workspace,
         ThreadPool& pool) {
  const Plan<E> plan(problem, pool.threads());
  FilterGradient<E>(plan, x, dy, dw, workspace).run(pool);
}

}  // namespace

std::size_t conv2d_backward_filter_workspace_bytes(const Conv2DProblem& problem, int threads) {
  check_conv2d(problem);
  return problem.y_dtype == DType::kFloat64 ? Plan<double>(problem, threads).bytes
                                            : Plan<float>(problem, threads).bytes;
}

void conv2d_backward_filter(const Conv2DProblem& problem, const void* x, const void* dy, void* dw,
                            void* workspace, ThreadPool& pool) {
  check_conv2d(problem);
  if (problem.y_dtype == DType::kFloat64) {
    run<double>(problem, x, dy, dw, workspace, pool);
  } else {
    run<float>(problem, x, dy, dw, workspace, pool);
  }
}

}  // namespace demi::cpu
