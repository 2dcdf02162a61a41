// How batch_norm deals x [rows, channels] to blocks: tiles of channels by chunks of rows. A thread
// has one packet of channels and strides over the rows of its block's chunk, so what belongs to a
// channel stays in its registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include <demi/shape.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packet.cuh"

namespace demi::cuda::batch_norm {

inline constexpr int kThreads = 256;
/// Rows a thread visits: few enough for float32 sums over them to be good.
inline constexpr int kRowsOfThread = 32;

struct Layout {
  std::int64_t rows;
  int channels;
  int length;      ///< of a packet
  int chunk_rows;  ///< rows of every chunk but the last
  int lanes;       ///< threads side by side, a power of two up to 32
  int chunks;
  int block_rows;  ///< threads above each other: kThreads / lanes
  int tiles;       ///< of lanes · length channels

  [[nodiscard]] static Layout of(const Shape& x, int packet_length) {
    Layout layout = {};
    layout.channels = static_cast<int>(x[-1]);
    layout.rows = layout.channels == 0 ? 0 : x.elements() / layout.channels;
    layout.length = layout.channels % packet_length == 0 ? packet_length : 1;
    const int packets = layout.channels / layout.length;
    layout.lanes = 1;
    while (layout.lanes < packets && layout.lanes < 32) layout.lanes *= 2;
    layout.tiles = (packets + layout.lanes - 1) / layout.lanes;
    layout.block_rows = kThreads / layout.lanes;
    // Longer chunks only where there would be too many of them to bring together.
    const std::int64_t most = 1024;
    const std::int64_t whole = layout.block_rows * std::int64_t{kRowsOfThread};
    const std::int64_t groups = (layout.rows + whole - 1) / whole;
    layout.chunk_rows =
        static_cast<int>(whole * std::max<std::int64_t>((groups + most - 1) / most, 1));
    layout.chunks = static_cast<int>((layout.rows + layout.chunk_rows - 1) / layout.chunk_rows);
    return layout;
  }

  [[nodiscard]] unsigned blocks() const { return static_cast<unsigned>(tiles * chunks); }
  [[nodiscard]] __host__ __device__ std::int64_t rows_of(int chunk) const {
    const std::int64_t left = rows - static_cast<std::int64_t>(chunk) * chunk_rows;
    return left < chunk_rows ? left : chunk_rows;
  }
};

/// The part of this thread.
struct Part {
  int chunk;
  int channel;  ///< the first of its packet; ≥ Layout::channels: it has nothing to do
  int lane;
  int thread_row;
  std::int64_t row;  ///< its first
  std::int64_t end;  ///< of its chunk

  __device__ explicit Part(const Layout& layout)
      : chunk(static_cast<int>(blockIdx.x) / layout.tiles),
        lane(static_cast<int>(threadIdx.x) % layout.lanes),
        thread_row(static_cast<int>(threadIdx.x) / layout.lanes) {
    const int tile = static_cast<int>(blockIdx.x) % layout.tiles;
    channel = (tile * layout.lanes + lane) * layout.length;
    const std::int64_t first = static_cast<std::int64_t>(chunk) * layout.chunk_rows;
    row = first + thread_row;
    end = channel < layout.channels ? first + layout.rows_of(chunk) : row;
  }
};

/// Calls body(element) with the first element of each packet of this thread.
template <class Body>
__device__ inline void for_rows(const Layout& layout, const Part& part, Body&& body) {
  for (std::int64_t row = part.row; row < part.end; row += layout.block_rows) {
    body(row * layout.channels + part.channel);
  }
}

}  // namespace demi::cuda::batch_norm
