// Convolutions of 3 × 3 by Note [Winograd]: which they are, and how their tiles are cut into
// chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/conv2d/correlation.h"

namespace demi::cpu {

/// Why the convolution and its gradients are summed directly; empty if by Winograd's tiles. Depends
/// on the problem alone, so that a convolution has the same bits with and without a pooling.
[[nodiscard]] std::string winograd_refusal(const Conv2DProblem& problem);

// ---- Forward, and the gradient of the input

/// Whether correlate() does this one by tiles.
[[nodiscard]] bool winograd_takes(const CorrelationProblem& problem);
[[nodiscard]] std::size_t winograd_workspace_bytes(const CorrelationProblem& problem, int threads);
void winograd_correlate(const CorrelationProblem& problem, const CorrelationBuffers& buffers,
                        ThreadPool& pool);

// ---- The gradient of the filter, of problems without a refusal

[[nodiscard]] std::size_t winograd_filter_workspace_bytes(const Conv2DProblem& problem,
                                                          int threads);
void winograd_backward_filter(const Conv2DProblem& problem, const void* x, const void* dy, void* dw,
                              void* workspace, ThreadPool& pool);

// ---- Tiles

/// About how many tiles a chunk should have: the planes of source and result stay in the
/// second-level cache, but not so few that the filter is read too often.
[[nodiscard]] std::int64_t wanted_tiles(std::int64_t source_channels, std::int64_t result_channels);

/// Elements between planes beyond what they hold, so that they compete for no place of the cache.
inline constexpr std::int64_t kPlanesApart = 16;

/// The tiles of 2 × 2 results of a batch in chunks: some rows of tiles of one image, or some
/// images.
struct TileChunks {
  TileChunks(std::int64_t n, std::int64_t height, std::int64_t width, std::int64_t wanted);

  /// Rows of tiles of `images` images.
  struct Chunk {
    std::int64_t image;
    std::int64_t images;
    std::int64_t row;
    std::int64_t rows;
  };
  [[nodiscard]] Chunk at(std::int64_t chunk) const;
  [[nodiscard]] std::int64_t count() const { return image_chunks * strips; }
  /// Of the largest chunk.
  [[nodiscard]] std::int64_t tiles() const { return images * strip_rows * columns; }

  std::int64_t n;
  std::int64_t rows;  ///< of tiles of an image
  std::int64_t columns;
  std::int64_t images;  ///< of a chunk
  std::int64_t image_chunks;
  std::int64_t strip_rows;
  std::int64_t strips;  ///< of an image
};

}  // namespace demi::cpu
