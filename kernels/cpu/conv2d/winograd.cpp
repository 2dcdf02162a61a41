#include "kernels/cpu/conv2d/winograd.h"

#include <algorithm>

#include "kernels/cpu/conv2d/packed_filter.h"
#include "kernels/cpu/conv2d/source_rows.h"
#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

/// Below so many channels, the transforms cost more than the multiplications they save.
constexpr std::int64_t kMinChannels = 16;
/// Below so many tiles in an image, the transform of the filter does. (Not in a batch: an image's
/// results must not depend on the others.)
constexpr std::int64_t kMinTiles = 16;
/// Steps of the sum between two visits of the sums.
constexpr std::int64_t kMaxDepth = 384;
constexpr std::int64_t kWantedChunks = 16;
constexpr std::int64_t kLeastTiles = 12;
std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t tiles_of(std::int64_t n, std::int64_t height, std::int64_t width) {
  return n * ceil_div(height, 2) * ceil_div(width, 2);
}

bool pools_tiles(const PoolWindow& window) {
  return window.size_h == 2 && window.size_w == 2 && window.stride_h == 2 && window.stride_w == 2;
}

/// Tiles of a chunk, fewer where there are few in all.
std::int64_t chunk_tiles(const CorrelationProblem& p) {
  const std::int64_t all = tiles_of(p.n, p.rows.result, p.columns.result);
  return std::min(wanted_tiles(p.source_channels, p.result_channels),
                  std::max(kLeastTiles, ceil_div(all, kWantedChunks)));
}

struct Plan {
  Plan(const CorrelationProblem& problem, int threads);

  const CorrelationProblem& p;
  const MicroKernels<float>& kernels = microkernels<float>();
  TileChunks chunks;
  SourceBox box;  ///< of one image of a chunk
  std::int64_t source_width;
  std::int64_t result_width;
  std::int64_t source_plane;
  std::int64_t filter_plane;
  std::int64_t sums_plane;

  std::size_t packed_offset;
  std::size_t filter_offset;
  std::size_t bias_offset;
  std::size_t offsets_offset;
  std::size_t thread_offset;
  std::size_t thread_bytes;
  std::size_t box_piece;
  std::size_t source_piece;
  std::size_t sums_piece;
  std::size_t bytes;
};

Plan::Plan(const CorrelationProblem& problem, int threads)
    : p(problem), chunks(p.n, p.rows.result, p.columns.result, chunk_tiles(p)) {
  box = {.h = p.rows.source,
         .w = p.columns.source,
         .c = p.source_channels,
         .first_column = p.columns.lowest(0),
         .rows = 2 * chunks.strip_rows + 2,
         .columns = 2 * chunks.columns + 2};
  source_width = kernels.padded(p.source_channels);
  result_width = kernels.padded(p.result_channels);
  source_plane = chunks.tiles() * source_width + kPlanesApart;
  filter_plane = p.source_channels * result_width + kPlanesApart;
  sums_plane = chunks.tiles() * result_width + kPlanesApart;

  WorkspaceLayout shared;
  packed_offset = shared.reserve<float>(9 * p.source_channels * result_width);
  filter_offset = shared.reserve<float>(kWinogradPlanes * filter_plane);
  bias_offset = shared.reserve<float>(result_width);
  offsets_offset = shared.reserve<std::int64_t>(chunks.tiles());
  thread_offset = shared.bytes();
  WorkspaceLayout own;
  box_piece = own.reserve<float>(box.elements());
  source_piece = own.reserve<float>(kWinogradPlanes * source_plane);
  sums_piece = own.reserve<float>(kWinogradPlanes * sums_plane);
  thread_bytes = own.bytes();
  bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
}

class Tiles {
 public:
  Tiles(const Plan& plan, const CorrelationBuffers& buffers)
      : plan_(plan),
        p_(plan.p),
        kernels_(plan.kernels),
        buffers_(buffers),
        filter_(piece<float>(buffers.workspace, plan.filter_offset)),
        bias_(buffers.bias != nullptr ? piece<float>(buffers.workspace, plan.bias_offset)
                                      : nullptr),
        offsets_(piece<std::int64_t>(buffers.workspace, plan.offsets_offset)) {}

  void run(ThreadPool& pool) {
    if (p_.n == 0) return;
    if (bias_ != nullptr) {
      kernels_.pack({.source = {buffers_.bias, storage_of(p_.bias_dtype)},
                     .source_stride = p_.result_channels,
                     .rows = 1,
                     .columns = p_.result_channels,
                     .out = bias_,
                     .width = plan_.result_width});
    }
    for (std::int64_t i = 0; i < plan_.chunks.tiles(); ++i) offsets_[i] = i * plan_.source_width;
    pool.parallel_for(kernels_.panel_count(p_.result_channels), [&](std::int64_t panel, int) {
      transform_filter(panel * kernels_.panel_width);
    });
    pool.parallel_for(plan_.chunks.count(),
                      [&](std::int64_t chunk, int thread) { run_chunk(chunk, thread); });
  }

 private:
  void transform_filter(std::int64_t column) const;
  void run_chunk(std::int64_t chunk, int thread) const;
  void transform_source(const TileChunks::Chunk& chunk, float* box, float* source) const;
  void multiply(std::int64_t tiles, const float* source, float* sums) const;
  void store_results(const TileChunks::Chunk& chunk, const float* sums) const;

  const Plan& plan_;
  const CorrelationProblem& p_;
  const MicroKernels<float>& kernels_;
  const CorrelationBuffers& buffers_;
  float* filter_;
  float* bias_;
  std::int64_t* offsets_;  ///< of the tiles in a plane of the source
};

void Tiles::transform_filter(std::int64_t column) const {
  std::int32_t tap_of_slot[9];
  for (std::int32_t i = 0; i < 9; ++i) {
    tap_of_slot[i] =
        static_cast<std::int32_t>(p_.rows.ordered_tap(i / 3) * 3 + p_.columns.ordered_tap(i % 3));
  }
  float* packed =
      piece<float>(buffers_.workspace, plan_.packed_offset) + 9 * column * p_.source_channels;
  pack_filter_panel(kernels_, p_, buffers_.filter, 0, column, tap_of_slot, packed);
  kernels_.winograd_filter({.taps = packed,
                            .channels = p_.source_channels,
                            .width = kernels_.width_of(p_.result_channels - column),
                            .out = filter_ + column * p_.source_channels,
                            .plane = plan_.filter_plane});
}

void Tiles::run_chunk(std::int64_t index, int thread) const {
  void* own =
      piece<std::byte>(buffers_.workspace,
                       plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  auto* source = piece<float>(own, plan_.source_piece);
  auto* sums = piece<float>(own, plan_.sums_piece);
  const TileChunks::Chunk chunk = plan_.chunks.at(index);
  transform_source(chunk, piece<float>(own, plan_.box_piece), source);
  multiply(chunk.images * chunk.rows * plan_.chunks.columns, source, sums);
  store_results(chunk, sums);
}

void Tiles::transform_source(const TileChunks::Chunk& chunk, float* box, float* source) const {
  const std::int64_t image_bytes = p_.rows.source * p_.columns.source * p_.source_channels *
                                   static_cast<std::int64_t>(size_of(p_.source_dtype));
  for (std::int64_t image = chunk.image; image < chunk.image + chunk.images; ++image) {
    copy_box(kernels_, plan_.box,
             static_cast<const std::byte*>(buffers_.source) + image * image_bytes, p_.source_dtype,
             p_.rows.lowest(0) + 2 * chunk.row, box);
    for (std::int64_t row = 0; row < chunk.rows; ++row) {
      kernels_.winograd_source({.source = box + 2 * row * plan_.box.pitch(),
                                .row_stride = plan_.box.pitch(),
                                .pixel_stride = p_.source_channels,
                                .tiles = plan_.chunks.columns,
                                .channels = p_.source_channels,
                                .out = source,
                                .out_stride = plan_.source_width,
                                .plane = plan_.source_plane});
      source += plan_.chunks.columns * plan_.source_width;
    }
  }
}

/// One matrix product for each plane.
void Tiles::multiply(std::int64_t tiles, const float* source, float* sums) const {
  std::int32_t steps[kMaxDepth];
  for (std::int32_t i = 0; i < kMaxDepth; ++i) steps[i] = i;
  PanelJob<float> job{};
  job.a_offsets = offsets_;
  job.a_steps = steps;
  job.rows = tiles;
  job.init_stride = job.c_stride = plan_.result_width;
  for (std::int64_t plane = 0; plane < kWinogradPlanes; ++plane) {
    for (std::int64_t step = 0; step < p_.source_channels; step += kMaxDepth) {
      job.a = source + plane * plan_.source_plane + step;
      job.depth = std::min(kMaxDepth, p_.source_channels - step);
      for (std::int64_t column = 0; column < p_.result_channels; column += kernels_.panel_width) {
        const std::int64_t width = kernels_.width_of(p_.result_channels - column);
        job.b = filter_ + plane * plan_.filter_plane + column * p_.source_channels + step * width;
        job.b_stride = job.columns = width;
        float* panel_sums = sums + plane * plan_.sums_plane + column;
        job.init = step > 0 ? panel_sums : nullptr;
        job.c = panel_sums;
        kernels_.run_panel(width, job);
      }
    }
  }
}

void Tiles::store_results(const TileChunks::Chunk& chunk, const float* sums) const {
  const std::int64_t pixels = p_.window != nullptr ? 1 : 2;  // of a result along a tile
  const std::int64_t height = p_.window != nullptr ? p_.rows.result / 2 : p_.rows.result;
  const std::int64_t width = p_.window != nullptr ? p_.columns.result / 2 : p_.columns.result;
  for (std::int64_t image = chunk.image; image < chunk.image + chunk.images; ++image) {
    for (std::int64_t row = chunk.row; row < chunk.row + chunk.rows; ++row) {
      const std::int64_t at = (image * height + row * pixels) * width * p_.result_channels;
      kernels_.winograd_result({.sums = sums,
                                .sums_stride = plan_.result_width,
                                .plane = plan_.sums_plane,
                                .bias = bias_,
                                .relu = p_.relu,
                                .y = static_cast<std::byte*>(buffers_.result) +
                                     at * static_cast<std::int64_t>(size_of(p_.result_dtype)),
                                .y_storage = storage_of(p_.result_dtype),
                                .row_stride = width * p_.result_channels,
                                .pixel_stride = p_.result_channels,
                                .rows = std::min<std::int64_t>(2, p_.rows.result - 2 * row),
                                .columns = p_.columns.result,
                                .channels = p_.result_channels,
                                .index = p_.window != nullptr ? buffers_.index + at : nullptr});
      sums += plan_.chunks.columns * plan_.result_width;
    }
  }
}

}  // namespace

std::int64_t wanted_tiles(std::int64_t source_channels, std::int64_t result_channels) {
  constexpr std::int64_t kChannelTiles = 5120;
  return std::clamp<std::int64_t>(kChannelTiles / (source_channels + result_channels), 48, 192);
}

TileChunks::TileChunks(std::int64_t batch, std::int64_t height, std::int64_t width,
                       std::int64_t wanted)
    : n(batch), rows(ceil_div(height, 2)), columns(ceil_div(width, 2)) {
  strips = ceil_div(rows, std::max<std::int64_t>(1, wanted / columns));
  strip_rows = ceil_div(rows, strips);
  strips = ceil_div(rows, strip_rows);
  images = strips > 1 ? 1
                      : std::clamp<std::int64_t>(wanted / (rows * columns), 1,
                                                 std::max<std::int64_t>(n, 1));
  image_chunks = ceil_div(n, images);
}

TileChunks::Chunk TileChunks::at(std::int64_t chunk) const {
  const std::int64_t image = chunk / strips * images;
  const std::int64_t row = chunk % strips * strip_rows;
  return {image, std::min(images, n - image), row, std::min(strip_rows, rows - row)};
}

std::string winograd_refusal(const Conv2DProblem& p) {
  if (p.kh != 3 || p.kw != 3) return "the kernel is not 3 x 3";
  if (p.stride_h != 1 || p.stride_w != 1 || p.dilation_h != 1 || p.dilation_w != 1 ||
      p.groups != 1) {
    return "strides, dilation or groups";
  }
  if (p.y_dtype == DType::kFloat64) return "float64";
  if (std::min(p.ci, p.co) < kMinChannels) {
    return "fewer than " + std::to_string(kMinChannels) + " channels";
  }
  if (tiles_of(1, p.out_h(), p.out_w()) < kMinTiles) {
    return "fewer than " + std::to_string(kMinTiles) + " tiles of 2 x 2 in an image";
  }
  return "";
}

bool winograd_takes(const CorrelationProblem& p) {
  return p.winograd && (p.window == nullptr || pools_tiles(*p.window));
}

std::size_t winograd_workspace_bytes(const CorrelationProblem& problem, int threads) {
  return Plan(problem, threads).bytes;
}

void winograd_correlate(const CorrelationProblem& problem, const CorrelationBuffers& buffers,
                        ThreadPool& pool) {
  const Plan plan(problem, pool.threads());
  Tiles(plan, buffers).run(pool);
}

}  // namespace demi::cpu
