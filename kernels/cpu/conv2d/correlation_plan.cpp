#include "kernels/cpu/conv2d/correlation_plan.h"

#include <algorithm>

#include "kernels/cpu/workspace.h"
#include "src/core/check.h"

namespace demi::cpu {
namespace {

/// Elements of a strip's source, which stays in the second-level cache.
constexpr std::int64_t kMaxBox = 48 * 1024;
constexpr std::int64_t kMaxPixels = 1024;
/// Of a strip that is pooled: its values of one panel stay in the first-level cache.
constexpr std::int64_t kMaxPooledPixels = 320;
/// Up to so many steps, storing the values before their pooling costs more than summing them.
constexpr std::int64_t kShallow = 64;
/// Strips take in further images until they have so many pixels.
constexpr std::int64_t kMinPixels = 48;
constexpr std::int64_t kWantedChunks = 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a >= 0 ? a / b : -ceil_div(-a, b);
}

Axis row_axis(const Conv2DProblem& p, bool backward) {
  return {.result = backward ? p.h : p.out_h(),
          .source = backward ? p.out_h() : p.h,
          .taps = p.kh,
          .stride = p.stride_h,
          .dilation = p.dilation_h,
          .pad = p.pad_top,
          .backward = backward};
}

Axis column_axis(const Conv2DProblem& p, bool backward) {
  return {.result = backward ? p.w : p.out_w(),
          .source = backward ? p.out_w() : p.w,
          .taps = p.kw,
          .stride = p.stride_w,
          .dilation = p.dilation_w,
          .pad = p.pad_left,
          .backward = backward};
}

}  // namespace

std::int64_t Axis::lowest(std::int64_t begin) const {
  if (!backward) return begin * stride - pad;
  return floor_div(begin + pad - (taps - 1) * dilation, stride);
}

std::int64_t Axis::highest(std::int64_t end) const {
  if (!backward) return (end - 1) * stride - pad + (taps - 1) * dilation;
  return (end - 1 + pad) / stride;
}

CorrelationProblem forward_correlation(const Conv2DProblem& p, const PoolWindow* window) {
  CorrelationProblem correlation{.n = p.n,
                                 .rows = row_axis(p, false),
                                 .columns = column_axis(p, false),
                                 .groups = p.groups,
                                 .source_channels = p.ci / p.groups,
                                 .result_channels = p.co / p.groups,
                                 .source_dtype = p.x_dtype,
                                 .filter_dtype = p.w_dtype,
                                 .bias_dtype = p.bias_dtype,
                                 .result_dtype = p.y_dtype,
                                 .relu = p.activation == Activation::kRelu,
                                 .window = window};
  if (window != nullptr) {
    // Pixels in no window are not computed.
    const auto covered = [](std::int64_t places, std::int64_t stride, std::int64_t size) {
      return (places - 1) * stride + size;
    };
    correlation.rows.result = covered(window->out_h(p.out_h()), window->stride_h, window->size_h);
    correlation.columns.result =
        covered(window->out_w(p.out_w()), window->stride_w, window->size_w);
  }
  return correlation;
}

CorrelationProblem backward_correlation(const Conv2DProblem& p) {
  return {.n = p.n,
          .rows = row_axis(p, true),
          .columns = column_axis(p, true),
          .groups = p.groups,
          .source_channels = p.co / p.groups,
          .result_channels = p.ci / p.groups,
          .source_dtype = p.y_dtype,
          .filter_dtype = p.w_dtype,
          .bias_dtype = p.bias_dtype,
          .result_dtype = p.x_dtype,
          .relu = false,
          .window = nullptr};
}

template <class E>
CorrelationPlan<E>::CorrelationPlan(const CorrelationProblem& problem, int threads) : p(problem) {
  depth = p.rows.taps * p.columns.taps * p.source_channels;
  group_columns = kernels.padded(p.result_channels);
  panels = kernels.panel_count(p.result_channels);
  box = {.h = p.rows.source,
         .w = p.columns.source,
         .c = p.groups * p.source_channels,
         .first_column = p.columns.lowest(0),
         .rows = 0,
         .columns = p.columns.highest(p.columns.result) - p.columns.lowest(0) + 1};
  shallow =
      p.window != nullptr && p.window->size_h == 2 && p.window->size_w == 2 && depth <= kShallow;
  choose_strips();
  in_place = !is_half(p.source_dtype) && p.rows.lowest(0) >= 0 && box.first_column >= 0 &&
             p.rows.highest(p.rows.result) < box.h && box.first_column + box.columns <= box.w;
  pitch = in_place ? box.w * box.c : box.pitch();
  image_pitch = in_place ? box.h * pitch : box.elements();
  const std::int64_t chunks = ceil_div(p.n, images) * strips;
  const std::int64_t all_panels = p.groups * panels;
  panel_chunks = chunks == 0 ? 1 : std::min(all_panels, ceil_div(kWantedChunks, chunks));
  chunk_panels = ceil_div(all_panels, panel_chunks);
  panel_chunks = ceil_div(all_panels, chunk_panels);
  phase_count = p.rows.phases() * p.columns.phases();
  reserve(threads);
}

template <class E>
std::int64_t CorrelationPlan<E>::box_rows(std::int64_t units) const {
  return p.rows.highest(rows_of(units)) - p.rows.lowest(0) + 1;
}

template <class E>
bool CorrelationPlan<E>::fits(std::int64_t units) const {
  return box_rows(units) * box.columns * box.c <= kMaxBox &&
         rows_of(units) * p.columns.result <=
             (p.window != nullptr && !shallow ? kMaxPooledPixels : kMaxPixels);
}

template <class E>
void CorrelationPlan<E>::choose_strips() {
  all_units =
      p.window != nullptr ? p.window->out_h(p.rows.result) : ceil_div(p.rows.result, p.rows.step());
  units = all_units;
  while (units > 1 && !fits(units)) units = ceil_div(units, 2);
  strips = ceil_div(all_units, units);
  units = ceil_div(all_units, strips);
  box.rows = box_rows(units);
  pixels = rows_of(units) * p.columns.result;
  images = 1;
  if (strips == 1) {
    images =
        std::min(ceil_div(kMinPixels, pixels), kMaxBox / std::max(box.elements(), kMaxBox / 64));
    images = std::clamp<std::int64_t>(images, 1, std::max<std::int64_t>(p.n, 1));
  }
  pixels *= images;
}

template <class E>
void CorrelationPlan<E>::reserve(int threads) {
  WorkspaceLayout shared;
  filter_offset = shared.reserve<E>(p.groups * group_columns * depth);
  bias_offset = shared.reserve<E>(p.groups * group_columns);
  phases_offset = shared.reserve<Phase>(phase_count);
  steps_offset = shared.reserve<std::int32_t>(depth);
  slots_offset = shared.reserve<std::int32_t>(p.rows.taps * p.columns.taps);
  offsets_offset = shared.reserve<std::int64_t>(2 * pixels);
  windows_offset = shared.reserve<std::int64_t>(
      shallow ? images * units * p.window->out_w(p.columns.result) : 0);
  thread_offset = shared.bytes();
  WorkspaceLayout own;
  box_piece = own.reserve<E>(in_place ? 0 : images * image_pitch);
  sums_piece =
      own.reserve<E>(p.window != nullptr || depth > kMaxDepth ? pixels * kernels.panel_width : 0);
  thread_bytes = own.bytes();
  bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
}

template struct CorrelationPlan<float>;
template struct CorrelationPlan<double>;

std::size_t correlation_workspace_bytes(const CorrelationProblem& problem, int threads) {
  return problem.result_dtype == DType::kFloat64 ? CorrelationPlan<double>(problem, threads).bytes
                                                 : CorrelationPlan<float>(problem, threads).bytes;
}

}  // namespace demi::cpu
