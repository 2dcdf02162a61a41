// Reductions within a warp and within a block, and the last block of a grid: the parts of sums
// whose order is given by the launch alone.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device_compat.cuh"

namespace demi::cuda {

inline constexpr unsigned kFullWarp = 0xffffffffu;

struct Sum {
  template <class C>
  __host__ __device__ C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>) {  // wraps around
      return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

/// The larger one; a NaN wins.
struct Max {
  template <class C>
  __host__ __device__ C operator()(C a, C b) const {
    return b > a || b != b ? b : a;
  }
};

/// The larger one that is not a NaN, unless `a` is one.
struct MaxOfNumbers {
  template <class C>
  __host__ __device__ C operator()(C a, C b) const {
    return b > a ? b : a;
  }
};

/// The value of the lane whose number differs in the bits of `lanes`; structs overload it.
template <class T>
__device__ inline T shuffle_xor(T value, int lanes) {
  return __shfl_xor_sync(kFullWarp, value, lanes);
}

/// combine(…) over the `width` neighbouring lanes (a power of two up to 32) that each lane belongs
/// to; all of them get it. Called by whole warps; `combine` must be commutative.
template <class T, class Combine>
__device__ inline T reduce_lanes(T value, int width, Combine combine) {
  for (int lanes = width / 2; lanes > 0; lanes /= 2) {
    value = combine(value, shuffle_xor(value, lanes));
  }
  return value;
}

/// combine(…) over a one-dimensional block of whole warps; all threads get it.
template <class T, class Combine>
__device__ inline T reduce_block(T value, Combine combine) {
  DEMI_SHARED(T, of_warp, [32]);
  value = reduce_lanes(value, 32, combine);
  __syncthreads();  // a call before this one has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  T total = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) total = combine(total, of_warp[warp]);
  return total;
}

/// Whether this block is the last of a one-dimensional grid to call it; then what the others wrote
/// before is visible, and `counter` (Context::block_counter) is 0 again.
__device__ inline bool is_last_block(unsigned* counter) {
  DEMI_SHARED(bool, last, [1]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last[0] = atomicAdd(counter, 1u) == gridDim.x - 1;
    if (last[0]) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last[0];
}

}  // namespace demi::cuda
