#include "kernels/cpu/conv2d/correlation.h"

#include <algorithm>

#include "kernels/cpu/conv2d/correlation_plan.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

template <class E>
class Correlator {
 public:
  Correlator(const CorrelationPlan<E>& plan, const CorrelationBuffers& buffers)
      : plan_(plan),
        p_(plan.p),
        kernels_(plan.kernels),
        buffers_(buffers),
        filter_(piece<E>(buffers.workspace, plan.filter_offset)),
        bias_(piece<E>(buffers.workspace, plan.bias_offset)),
        phases_(piece<Phase>(buffers.workspace, plan.phases_offset)),
        slots_(piece<std::int32_t>(buffers.workspace, plan.slots_offset)) {}

  void run(ThreadPool& pool) {
    if (p_.n == 0) return;
    prepare_phases();
    if (plan_.shallow) prepare_windows();
    if (buffers_.bias != nullptr) {
      kernels_.pack({.source = {buffers_.bias, storage_of(p_.bias_dtype)},
                     .source_stride = p_.result_channels,
                     .rows = p_.groups,
                     .columns = p_.result_channels,
                     .out = bias_,
                     .width = plan_.group_columns});
    }
    pool.parallel_for(p_.groups * plan_.panels,
                      [&](std::int64_t panel, int) { pack_filter(panel); });
    const std::int64_t image_chunks = (p_.n + plan_.images - 1) / plan_.images;
    pool.parallel_for(image_chunks * plan_.strips * plan_.panel_chunks,
                      [&](std::int64_t chunk, int thread) { run_chunk(chunk, thread); });
  }

 private:
  /// What the panels of one chunk have in common.
  struct Strip {
    std::int64_t image;
    std::int64_t images;
    std::int64_t unit;
    std::int64_t rows;  ///< of results
    const E* source;
    E* sums;
  };

  void prepare_phases();
  void prepare_windows() const;
  std::int64_t prepare_steps(Phase& phase, std::int64_t slot, std::int64_t row_phase,
                             std::int64_t column_phase) const;
  void prepare_pixels(Phase& phase, std::int64_t row_phase, std::int64_t column_phase) const;
  void pack_filter(std::int64_t panel) const;
  void run_chunk(std::int64_t chunk, int thread) const;
  const E* place_source(std::int64_t image, std::int64_t images, std::int64_t strip, E* box) const;
  void run_panel(const Strip& strip, const Phase& phase, std::int64_t panel) const;
  void run_windows(const Strip& strip, std::int64_t panel) const;
  void pool_panel(const Strip& strip, std::int64_t width, std::int64_t column,
                  std::int64_t columns) const;
  [[nodiscard]] const E* bias_of(std::int64_t group, std::int64_t column) const {
    return buffers_.bias != nullptr ? bias_ + group * plan_.group_columns + column : nullptr;
  }
  [[nodiscard]] std::int64_t rows_of_phase(const Phase& phase, std::int64_t rows) const {
    return ceil_div(std::max<std::int64_t>(0, rows - phase.first_row), p_.rows.step());
  }
  [[nodiscard]] std::int64_t result_pitch() const { return p_.groups * p_.result_channels; }
  [[nodiscard]] std::byte* result_at(std::int64_t element) const {
    return static_cast<std::byte*>(buffers_.result) +
           element * static_cast<std::int64_t>(size_of(p_.result_dtype));
  }

  const CorrelationPlan<E>& plan_;
  const CorrelationProblem& p_;
  const MicroKernels<E>& kernels_;
  const CorrelationBuffers& buffers_;
  E* filter_;
  E* bias_;
  Phase* phases_;
  std::int32_t* slots_;  ///< which tap lies where in the packed filter
};

template <class E>
void Correlator<E>::prepare_phases() {
  auto* offsets = piece<std::int64_t>(buffers_.workspace, plan_.offsets_offset);
  std::int64_t slot = 0;
  const auto count = [](const Axis& axis, std::int64_t extent, std::int64_t phase) {
    return ceil_div(std::max<std::int64_t>(0, extent - axis.first(phase)), axis.step());
  };
  const std::int64_t strip_rows = std::min(plan_.rows_of(plan_.units), p_.rows.result);
  for (std::int64_t i = 0; i < plan_.phase_count; ++i) {
    const std::int64_t row_phase = i / p_.columns.phases();
    const std::int64_t column_phase = i % p_.columns.phases();
    Phase& phase = phases_[i];
    phase.first_row = p_.rows.first(row_phase);
    phase.rows = count(p_.rows, strip_rows, row_phase);
    phase.columns = count(p_.columns, p_.columns.result, column_phase);
    phase.source_offsets = offsets;
    phase.result_offsets = offsets + plan_.pixels;
    offsets += plan_.images * phase.rows * phase.columns;
    slot = prepare_steps(phase, slot, row_phase, column_phase);
    prepare_pixels(phase, row_phase, column_phase);
  }
}

/// Lists the taps of a phase from `slot` of the packed filter on. Returns the slot after them.
template <class E>
std::int64_t Correlator<E>::prepare_steps(Phase& phase, std::int64_t slot, std::int64_t row_phase,
                                          std::int64_t column_phase) const {
  auto* steps = piece<std::int32_t>(buffers_.workspace, plan_.steps_offset);
  std::int32_t* step = steps + slot * p_.source_channels;
  phase.steps = step;
  phase.first_step = slot * p_.source_channels;
  for (std::int64_t i = 0; i < p_.rows.taps * p_.columns.taps; ++i) {
    const std::int64_t row_tap = p_.rows.ordered_tap(i / p_.columns.taps);
    const std::int64_t column_tap = p_.columns.ordered_tap(i % p_.columns.taps);
    if (!p_.rows.uses(row_phase, row_tap) || !p_.columns.uses(column_phase, column_tap)) continue;
    const std::int64_t first = p_.rows.displacement(row_phase, row_tap) * plan_.pitch +
                               p_.columns.displacement(column_phase, column_tap) * plan_.box.c;
    for (std::int64_t c = 0; c < p_.source_channels; ++c) {
      *step++ = static_cast<std::int32_t>(first + c);
    }
    slots_[slot++] = static_cast<std::int32_t>(row_tap * p_.columns.taps + column_tap);
  }
  phase.depth = step - phase.steps;
  return slot;
}

template <class E>
void Correlator<E>::prepare_pixels(Phase& phase, std::int64_t row_phase,
                                   std::int64_t column_phase) const {
  std::int64_t pixel = 0;
  for (std::int64_t image = 0; image < plan_.images; ++image) {
    for (std::int64_t i = 0; i < phase.rows; ++i) {
      const std::int64_t row = phase.first_row + i * p_.rows.step();
      const std::int64_t source_row = p_.rows.base(row, row_phase) - p_.rows.lowest(0);
      for (std::int64_t j = 0; j < phase.columns; ++j, ++pixel) {
        const std::int64_t column = p_.columns.first(column_phase) + j * p_.columns.step();
        const std::int64_t source_column =
            p_.columns.base(column, column_phase) - plan_.box.first_column;
        phase.source_offsets[pixel] =
            image * plan_.image_pitch + source_row * plan_.pitch + source_column * plan_.box.c;
        phase.result_offsets[pixel] =
            ((image * p_.rows.result + row) * p_.columns.result + column) * result_pitch();
      }
    }
  }
}

/// Where the windows of a strip start in its source.
template <class E>
void Correlator<E>::prepare_windows() const {
  auto* offsets = piece<std::int64_t>(buffers_.workspace, plan_.windows_offset);
  const PoolWindow& window = *p_.window;
  const std::int64_t columns = window.out_w(p_.columns.result);
  for (std::int64_t i = 0; i < plan_.images * plan_.units * columns; ++i) {
    const std::int64_t row = i / columns;
    const std::int64_t pixel_row =
        row / plan_.units * phases_->rows + row % plan_.units * window.stride_h;
    offsets[i] =
        phases_->source_offsets[pixel_row * phases_->columns + i % columns * window.stride_w];
  }
}

/// Packs one panel of a group, [slots · source channels, width].
template <class E>
void Correlator<E>::pack_filter(std::int64_t panel) const {
  const std::int64_t group = panel / plan_.panels;
  const std::int64_t column = panel % plan_.panels * kernels_.panel_width;
  const std::int64_t columns = std::min(kernels_.panel_width, p_.result_channels - column);
  const std::int64_t width = kernels_.width_of(columns);
  E* out = filter_ + (group * plan_.group_columns + column) * plan_.depth;
  const auto at = [&](std::int64_t element) {
    return Source{static_cast<const std::byte*>(buffers_.filter) +
                      element * static_cast<std::int64_t>(size_of(p_.filter_dtype)),
                  storage_of(p_.filter_dtype)};
  };
  if (!p_.rows.backward) {
    kernels_.pack({.source = at(group * p_.result_channels + column),
                   .source_stride = p_.groups * p_.result_channels,
                   .rows = plan_.depth,
                   .columns = columns,
                   .out = out,
                   .width = width});
    return;
  }
  for (std::int64_t slot = 0; slot < p_.rows.taps * p_.columns.taps; ++slot) {
    const std::int64_t pitch = p_.groups * p_.source_channels;
    kernels_.pack_transposed({.source = at((slots_[slot] * p_.result_channels + column) * pitch +
                                           group * p_.source_channels),
                              .source_stride = pitch,
                              .rows = p_.source_channels,
                              .columns = columns,
                              .out = out + slot * p_.source_channels * width,
                              .width = width});
  }
}

template <class E>
void Correlator<E>::run_chunk(std::int64_t chunk, int thread) const {
  void* own =
      piece<std::byte>(buffers_.workspace,
                       plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  const std::int64_t panels = p_.groups * plan_.panels;
  const std::int64_t first_panel = chunk % plan_.panel_chunks * plan_.chunk_panels;
  const std::int64_t end_panel = std::min(first_panel + plan_.chunk_panels, panels);
  chunk /= plan_.panel_chunks;
  const std::int64_t index = chunk % plan_.strips;
  Strip strip{};
  strip.image = chunk / plan_.strips * plan_.images;
  strip.images = std::min(plan_.images, p_.n - strip.image);
  strip.unit = index * plan_.units;
  const std::int64_t units = std::min(plan_.units, plan_.all_units - strip.unit);
  strip.rows = std::min(plan_.rows_of(units), p_.rows.result - strip.unit * p_.rows.step());
  strip.source = place_source(strip.image, strip.images, index, piece<E>(own, plan_.box_piece));
  strip.sums = piece<E>(own, plan_.sums_piece);
  for (std::int64_t i = 0; i < plan_.phase_count; ++i) {
    for (std::int64_t panel = first_panel; panel < end_panel; ++panel) {
      if (plan_.shallow) {
        run_windows(strip, panel);
      } else {
        run_panel(strip, phases_[i], panel);
      }
    }
  }
}

/// Where the strip's source starts: in the tensor itself, or copied to `box`.
template <class E>
const E* Correlator<E>::place_source(std::int64_t image, std::int64_t images, std::int64_t strip,
                                     E* box) const {
  const std::int64_t step =
      p_.window != nullptr ? plan_.units * p_.window->stride_h : plan_.units * p_.rows.step();
  const std::int64_t row = p_.rows.lowest(0) + p_.rows.advance(strip * step);
  const std::int64_t image_elements = plan_.box.h * plan_.box.w * plan_.box.c;
  if (plan_.in_place) {
    return static_cast<const E*>(buffers_.source) + image * image_elements + row * plan_.pitch +
           plan_.box.first_column * plan_.box.c;
  }
  for (std::int64_t i = 0; i < images; ++i) {
    const auto* source =
        static_cast<const std::byte*>(buffers_.source) +
        (image + i) * image_elements * static_cast<std::int64_t>(size_of(p_.source_dtype));
    copy_box(kernels_, plan_.box, source, p_.source_dtype, row, box + i * plan_.image_pitch);
  }
  return box;
}

/// Computes one panel of the strip's results of a phase, block by block of the sum.
template <class E>
void Correlator<E>::run_panel(const Strip& strip, const Phase& phase, std::int64_t panel) const {
  const std::int64_t group = panel / plan_.panels;
  const std::int64_t column = panel % plan_.panels * kernels_.panel_width;
  const std::int64_t width = kernels_.width_of(p_.result_channels - column);
  const std::int64_t columns = std::min(width, p_.result_channels - column);
  PanelJob<E> job{};
  job.a = strip.source + group * p_.source_channels;
  job.a_offsets = phase.source_offsets;
  const E* filter =
      filter_ + (group * plan_.group_columns + column) * plan_.depth + phase.first_step * width;
  job.b_stride = width;
  job.rows = phase.columns *
             (strip.images > 1 ? strip.images * phase.rows : rows_of_phase(phase, strip.rows));
  std::int64_t step = 0;
  do {
    job.depth = std::min(kMaxDepth, phase.depth - step);
    job.a_steps = phase.steps + step;
    job.b = filter + step * width;
    job.init = step == 0 ? bias_of(group, column) : strip.sums;
    job.init_stride = step == 0 ? 0 : width;
    step += job.depth;
    const bool last = step == phase.depth;
    job.c = strip.sums;
    job.c_stride = width;
    job.columns = width;
    if (last) {
      job.relu = p_.relu;
      if (p_.window == nullptr) {
        const std::int64_t row = strip.image * p_.rows.result + strip.unit * p_.rows.step();
        job.c = result_at(row * p_.columns.result * result_pitch() + group * p_.result_channels +
                          column);
        job.c_storage = storage_of(p_.result_dtype);
        job.c_offsets = phase.result_offsets;
        job.columns = columns;
      }
    }
    kernels_.run_panel(width, job);
  } while (step < phase.depth);
  if (p_.window != nullptr) {
    pool_panel(strip, width, group * p_.result_channels + column, columns);
  }
}

/// Computes one panel of a strip's pooled results in registers.
template <class E>
void Correlator<E>::run_windows(const Strip& strip, std::int64_t panel) const {
  const std::int64_t group = panel / plan_.panels;
  const std::int64_t column = panel % plan_.panels * kernels_.panel_width;
  const std::int64_t width = kernels_.width_of(p_.result_channels - column);
  const std::int64_t out_rows = p_.window->out_h(p_.rows.result);
  const std::int64_t out_columns = p_.window->out_w(p_.columns.result);
  const std::int64_t at = (strip.image * out_rows + strip.unit) * out_columns * result_pitch() +
                          group * p_.result_channels + column;
  kernels_.windows[width / kernels_.lanes - 1](
      {.a = strip.source + group * p_.source_channels,
       .a_offsets = piece<std::int64_t>(buffers_.workspace, plan_.windows_offset),
       .to_right = p_.columns.advance(1) * plan_.box.c,
       .to_below = p_.rows.advance(1) * plan_.pitch,
       .a_steps = phases_->steps,
       .depth = phases_->depth,
       .b = filter_ + (group * plan_.group_columns + column) * plan_.depth,
       .b_stride = width,
       .init = bias_of(group, column),
       .relu = p_.relu,
       .y = result_at(at),
       .y_storage = storage_of(p_.result_dtype),
       .index = buffers_.index + at,
       .y_stride = result_pitch(),
       .windows = strip.images * p_.window->out_h(strip.rows) * out_columns,
       .columns = std::min(width, p_.result_channels - column)});
}

template <class E>
void Correlator<E>::pool_panel(const Strip& strip, std::int64_t width, std::int64_t column,
                               std::int64_t columns) const {
  const PoolWindow& window = *p_.window;
  const std::int64_t out_rows = window.out_h(p_.rows.result);
  const std::int64_t out_columns = window.out_w(p_.columns.result);
  const std::int64_t rows = window.out_h(strip.rows);
  for (std::int64_t i = 0; i < strip.images; ++i) {
    const std::int64_t at =
        ((strip.image + i) * out_rows + strip.unit) * out_columns * result_pitch() + column;
    kernels_.pool({.values = strip.sums + i * strip.rows * p_.columns.result * width,
                   .width = width,
                   .row_stride = p_.columns.result * width,
                   .out_rows = rows,
                   .out_columns = out_columns,
                   .size_h = window.size_h,
                   .size_w = window.size_w,
                   .stride_h = window.stride_h,
                   .stride_w = window.stride_w,
                   .y = result_at(at),
                   .y_storage = storage_of(p_.result_dtype),
                   .index = buffers_.index + at,
                   .y_stride = result_pitch(),
                   .channels = columns});
  }
}

template <class E>
void run(const CorrelationProblem& problem, const CorrelationBuffers& buffers, ThreadPool& pool) {
  const CorrelationPlan<E> plan(problem, pool.threads());
  Correlator<E>(plan, buffers).run(pool);
}

}  // namespace

void correlate(const CorrelationProblem& problem, const CorrelationBuffers& buffers,
               ThreadPool& pool) {
  if (problem.result_dtype == DType::kFloat64) {
    run<double>(problem, buffers, pool);
  } else {
    run<float>(problem, buffers, pool);
  }
}

}  // namespace demi::cpu
