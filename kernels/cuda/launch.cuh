// launch(): starts a kernel on a stream. Grids, blocks and errors are checked here once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/cuda/device_compat.cuh"

namespace demi::cuda {

/// Starts `kernel`, whose arguments together must be trivially copyable and at most 4 KiB. Throws
/// DeviceError if the launch is refused. A grid without blocks starts nothing.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((sizeof(Parameters) + ... + 0) <= 4096);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#ifdef __CUDACC__
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  DEMI_CUDA_CHECK(cudaLaunchKernelEx(
      &config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...));
#else
  DEMI_CUDA_CHECK(
      cuda_emulator::launch_kernel(kernel, grid, block, shared_bytes, stream,
                                   static_cast<Parameters>(std::forward<Arguments>(arguments))...));
#endif
}

/// Blocks of `threads` for `count` elements, at most `limit`: for kernels that stride over a grid.
inline unsigned blocks_for(std::int64_t count, int threads, std::int64_t limit = 65535) {
  const std::int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < limit ? blocks : limit);
}

}  // namespace demi::cuda
