// The filter gradient by Note [Winograd]: for each plane the product of the transformed source,
// source channels × tiles, and the transformed dy, tiles × result channels. The batch is cut into
// groups, each with its own sums, which are added in order before they are transformed back.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/conv2d/source_rows.h"
#include "kernels/cpu/conv2d/winograd.h"
#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

constexpr std::int64_t kWantedTasks = 16;
/// Elements of all groups' sums.
constexpr std::int64_t kMaxSums = std::int64_t{1} << 20;
/// Source channels whose sums one task adds up.
constexpr std::int64_t kReducedChannels = 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct Plan {
  Plan(const Conv2DProblem& problem, int threads);

  const Conv2DProblem& p;
  const MicroKernels<float>& kernels = microkernels<float>();
  TileChunks chunks;
  SourceBox box;
  std::int64_t groups;  ///< of chunks
  std::int64_t group_chunks;
  std::int64_t slices;  ///< of result channels, each with its tasks
  std::int64_t slice_panels;
  std::int64_t panels;
  std::int64_t source_width;
  std::int64_t source_plane;
  std::int64_t gradient_plane;
  std::int64_t sums_plane;

  std::size_t sums_offset;  ///< [groups, planes], each [panels, ci, width]
  std::size_t offsets_offset;
  std::size_t steps_offset;
  std::size_t thread_offset;
  std::size_t thread_bytes;
  std::size_t box_piece;
  std::size_t source_piece;
  std::size_t gradient_piece;
  std::size_t taps_piece;
  std::size_t bytes;
};

Plan::Plan(const Conv2DProblem& problem, int threads)
    : p(problem), chunks(p.n, p.out_h(), p.out_w(), wanted_tiles(p.ci, p.co)) {
  box = {.h = p.h,
         .w = p.w,
         .c = p.ci,
         .first_column = -p.pad_left,
         .rows = 2 * chunks.strip_rows + 2,
         .columns = 2 * chunks.columns + 2};
  panels = kernels.panel_count(p.co);
  const std::int64_t result_width = kernels.padded(p.co);
  source_width = kernels.padded(p.ci);
  source_plane = chunks.tiles() * source_width + kPlanesApart;
  sums_plane = p.ci * result_width + kPlanesApart;
  groups = std::clamp<std::int64_t>(
      std::min(chunks.count(), kMaxSums / (kWinogradPlanes * sums_plane)), 1, kWantedTasks);
  group_chunks = std::max<std::int64_t>(1, ceil_div(chunks.count(), groups));
  groups = std::max<std::int64_t>(1, ceil_div(chunks.count(), group_chunks));
  slices = std::min(panels, ceil_div(kWantedTasks, groups));
  slice_panels = ceil_div(panels, slices);
  slices = ceil_div(panels, slice_panels);
  gradient_plane =
      chunks.tiles() * std::min(result_width, slice_panels * kernels.panel_width) + kPlanesApart;

  WorkspaceLayout shared;
  sums_offset = shared.reserve<float>(groups * kWinogradPlanes * sums_plane);
  offsets_offset = shared.reserve<std::int64_t>(p.ci);
  steps_offset = shared.reserve<std::int32_t>(chunks.tiles());
  thread_offset = shared.bytes();
  WorkspaceLayout own;
  box_piece = own.reserve<float>(box.elements());
  source_piece = own.reserve<float>(kWinogradPlanes * source_plane);
  gradient_piece = own.reserve<float>(kWinogradPlanes * gradient_plane);
  taps_piece = own.reserve<float>(9 * kReducedChannels * kernels.panel_width);
  thread_bytes = own.bytes();
  bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
}

class FilterTiles {
 public:
  FilterTiles(const Plan& plan, const void* x, const void* dy, void* dw, void* workspace)
      : plan_(plan),
        p_(plan.p),
        kernels_(plan.kernels),
        x_(static_cast<const std::byte*>(x)),
        dy_(static_cast<const std::byte*>(dy)),
        dw_(static_cast<std::byte*>(dw)),
        workspace_(workspace),
        sums_(piece<float>(workspace, plan.sums_offset)),
        offsets_(piece<std::int64_t>(workspace, plan.offsets_offset)),
        steps_(piece<std::int32_t>(workspace, plan.steps_offset)) {}

  void run(ThreadPool& pool) {
    for (std::int64_t i = 0; i < p_.ci; ++i) offsets_[i] = i;
    for (std::int64_t i = 0; i < plan_.chunks.tiles(); ++i) {
      steps_[i] = static_cast<std::int32_t>(i * plan_.source_width);
    }
    pool.parallel_for(plan_.groups * plan_.slices, [&](std::int64_t task, int thread) {
      run_group(task / plan_.slices, task % plan_.slices * plan_.slice_panels, thread);
    });
    const std::int64_t blocks = ceil_div(p_.ci, kReducedChannels);
    pool.parallel_for(plan_.panels * blocks, [&](std::int64_t task, int thread) {
      reduce(task / blocks, task % blocks * kReducedChannels, thread);
    });
  }

 private:
  [[nodiscard]] void* own(int thread) const {
    return piece<std::byte>(
        workspace_, plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  }
  [[nodiscard]] std::int64_t width_of(std::int64_t panel) const {
    return kernels_.width_of(p_.co - panel * kernels_.panel_width);
  }
  [[nodiscard]] float* sums_of(std::int64_t group, std::int64_t plane, std::int64_t panel) const {
    return sums_ + (group * kWinogradPlanes + plane) * plan_.sums_plane +
           panel * kernels_.panel_width * p_.ci;
  }
  void run_group(std::int64_t group, std::int64_t first_panel, int thread) const;
  void transform_source(const TileChunks::Chunk& chunk, float* box, float* source) const;
  void transform_gradient(const TileChunks::Chunk& chunk, std::int64_t panel, float* out) const;
  void reduce(std::int64_t panel, std::int64_t channel, int thread) const;

  const Plan& plan_;
  const Conv2DProblem& p_;
  const MicroKernels<float>& kernels_;
  const std::byte* x_;
  const std::byte* dy_;
  std::byte* dw_;
  void* workspace_;
  float* sums_;
  std::int64_t* offsets_;  ///< of the channels in a plane of the source
  std::int32_t* steps_;    ///< of the tiles
};

void FilterTiles::run_group(std::int64_t group, std::int64_t first_panel, int thread) const {
  auto* source = piece<float>(own(thread), plan_.source_piece);
  auto* gradient = piece<float>(own(thread), plan_.gradient_piece);
  const std::int64_t end_panel = std::min(first_panel + plan_.slice_panels, plan_.panels);
  const std::int64_t first = group * plan_.group_chunks;
  const std::int64_t end = std::min(first + plan_.group_chunks, plan_.chunks.count());
  PanelJob<float> job{};
  job.a_offsets = offsets_;
  job.a_steps = steps_;
  job.rows = p_.ci;
  for (std::int64_t index = first; index < end; ++index) {
    const TileChunks::Chunk chunk = plan_.chunks.at(index);
    transform_source(chunk, piece<float>(own(thread), plan_.box_piece), source);
    job.depth = chunk.images * chunk.rows * plan_.chunks.columns;
    float* panel_gradient = gradient;
    for (std::int64_t panel = first_panel; panel < end_panel; ++panel) {
      transform_gradient(chunk, panel, panel_gradient);
      panel_gradient += job.depth * width_of(panel);
    }
    for (std::int64_t plane = 0; plane < kWinogradPlanes; ++plane) {
      job.a = source + plane * plan_.source_plane;
      job.b = gradient + plane * plan_.gradient_plane;
      for (std::int64_t panel = first_panel; panel < end_panel; ++panel) {
        const std::int64_t width = width_of(panel);
        job.b_stride = job.init_stride = job.c_stride = job.columns = width;
        float* sums = sums_of(group, plane, panel);
        job.init = index > first ? sums : nullptr;
        job.c = sums;
        kernels_.run_panel(width, job);
        job.b += job.depth * width;
      }
    }
  }
  if (first >= end) {
    for (std::int64_t plane = 0; plane < kWinogradPlanes; ++plane) {
      for (std::int64_t panel = first_panel; panel < end_panel; ++panel) {
        std::fill_n(sums_of(group, plane, panel), p_.ci * width_of(panel), 0.0F);
      }
    }
  }
}

void FilterTiles::transform_source(const TileChunks::Chunk& chunk, float* box,
                                   float* source) const {
  const std::int64_t image_bytes =
      p_.h * p_.w * p_.ci * static_cast<std::int64_t>(size_of(p_.x_dtype));
  for (std::int64_t image = chunk.image; image < chunk.image + chunk.images; ++image) {
    copy_box(kernels_, plan_.box, x_ + image * image_bytes, p_.x_dtype, 2 * chunk.row - p_.pad_top,
             box);
    for (std::int64_t row = 0; row < chunk.rows; ++row) {
      kernels_.winograd_source({.source = box + 2 * row * plan_.box.pitch(),
                                .row_stride = plan_.box.pitch(),
                                .pixel_stride = p_.ci,
                                .tiles = plan_.chunks.columns,
                                .channels = p_.ci,
                                .out = source,
                                .out_stride = plan_.source_width,
                                .plane = plan_.source_plane});
      source += plan_.chunks.columns * plan_.source_width;
    }
  }
}

/// One panel of the chunk's dy, each plane [tiles, width].
void FilterTiles::transform_gradient(const TileChunks::Chunk& chunk, std::int64_t panel,
                                     float* out) const {
  const std::int64_t column = panel * kernels_.panel_width;
  const std::int64_t width = width_of(panel);
  const std::int64_t pitch = p_.out_w() * p_.co;
  for (std::int64_t image = chunk.image; image < chunk.image + chunk.images; ++image) {
    for (std::int64_t row = chunk.row; row < chunk.row + chunk.rows; ++row) {
      const std::int64_t at = (image * p_.out_h() + 2 * row) * pitch + column;
      kernels_.winograd_gradient({.dy = {dy_ + at * static_cast<std::int64_t>(size_of(p_.y_dtype)),
                                         storage_of(p_.y_dtype)},
                                  .row_stride = pitch,
                                  .pixel_stride = p_.co,
                                  .rows = std::min<std::int64_t>(2, p_.out_h() - 2 * row),
                                  .columns = p_.out_w(),
                                  .channels = std::min(width, p_.co - column),
                                  .out = out,
                                  .width = width,
                                  .plane = plan_.gradient_plane});
      out += plan_.chunks.columns * width;
    }
  }
}

/// Adds up the groups' sums of some source channels of a panel, transforms and stores them.
void FilterTiles::reduce(std::int64_t panel, std::int64_t channel, int thread) const {
  const std::int64_t width = width_of(panel);
  const std::int64_t column = panel * kernels_.panel_width;
  const std::int64_t channels = std::min(kReducedChannels, p_.ci - channel);
  for (std::int64_t plane = 0; plane < kWinogradPlanes; ++plane) {
    float* total = sums_of(0, plane, panel) + channel * width;
    for (std::int64_t group = 1; group < plan_.groups; ++group) {
      const float* sums = sums_of(group, plane, panel) + channel * width;
      for (std::int64_t i = 0; i < channels * width; ++i) total[i] += sums[i];
    }
  }
  auto* taps = piece<float>(own(thread), plan_.taps_piece);
  kernels_.winograd_taps({.sums = sums_of(0, 0, panel) + channel * width,
                          .plane = plan_.sums_plane,
                          .channels = channels,
                          .width = width,
                          .out = taps});
  for (std::int64_t tap = 0; tap < 9; ++tap) {
    for (std::int64_t i = 0; i < channels; ++i, taps += width) {
      const std::int64_t at = (tap * p_.ci + channel + i) * p_.co + column;
      kernels_.unpack(taps, std::min(width, p_.co - column),
                      dw_ + at * static_cast<std::int64_t>(size_of(p_.w_dtype)),
                      storage_of(p_.w_dtype));
    }
  }
}

}  // namespace

std::size_t winograd_filter_workspace_bytes(const Conv2DProblem& problem, int threads) {
  return Plan(problem, threads).bytes;
}

void winograd_backward_filter(const Conv2DProblem& problem, const void* x, const void* dy, void* dw,
                              void* workspace, ThreadPool& pool) {
  const Plan plan(problem, pool.threads());
  FilterTiles(plan, x, dy, dw, workspace).run(pool);
}

}  // namespace demi::cpu
