// Grids of kernels in which each thread strides over elements.
#pragma once

#include <cstdint>

#include "kernels/cuda/context.h"
#include "kernels/cuda/launch.cuh"

namespace demi::cuda {

inline constexpr int kElementwiseThreads = 256;

/// Blocks of kElementwiseThreads for `items`, one a thread at first; enough to fill the device a
/// few times, beyond which threads take several.
inline unsigned elementwise_blocks(std::int64_t items, const Context& context) {
  const std::int64_t limit = 16 * static_cast<std::int64_t>(context.properties().multiprocessors);
  return blocks_for(items, kElementwiseThreads, limit < 1 ? 1 : limit);
}

/// The number of this thread in a one-dimensional grid, and of all its threads.
__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace demi::cuda
