// The device dialect of CUDA for a C++ compiler: kernels run on the emulator of this folder.
// Included after CUDA's own headers, it supplies only what those leave to nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

// ---- Qualifiers that CUDA's headers do not define for a C++ compiler
// --------------------------------
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

// ---- Where a thread is
// ------------------------------------------------------------------------------ One thread of one
// block runs at a time, under the emulator's mutex: plain variables suffice.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

// ---- Shared memory
// ----------------------------------------------------------------------------------
namespace cuda_emulator {

/// The number of the block that runs, over all launches; for SharedVariable.
extern std::uint64_t current_block;

/// Called by the first thread of a block that reaches a shared variable: fills it as fresh device
/// memory is filled, and counts it against the limit of shared memory.
void enter_shared_variable(void* bytes, std::size_t count);

/// The shared memory whose size was given at the launch. Fatal if the launch gave none.
[[nodiscard]] void* dynamic_shared_memory(std::size_t alignment);

/// Static storage of a block's shared variable. Blocks run one after another, so one copy serves
/// all.
template <class T>
class SharedVariable {
 public:
  T& enter() {
    if (block_ != current_block) {
      block_ = current_block;
      enter_shared_variable(bytes_, sizeof(T));
    }
    return *reinterpret_cast<T*>(bytes_);
  }

 private:
  alignas(alignof(T) < 16 ? 16 : alignof(T)) unsigned char bytes_[sizeof(T)];
  std::uint64_t block_;
};

}  // namespace cuda_emulator

/// A block's shared array: DEMI_SHARED(float, tile, [32][33]).
#define DEMI_SHARED(type, name, extents)                                    \
  static ::cuda_emulator::SharedVariable<type extents> name##_of_the_block; \
  auto& name = name##_of_the_block.enter()
/// The shared memory whose size is given at the launch; at most one per kernel.
#define DEMI_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::cuda_emulator::dynamic_shared_memory(alignof(type)))
#define DEMI_UNROLL

#include "cuda_emulator/atomics.h"
#include "cuda_emulator/intrinsics.h"
#include "cuda_emulator/launch.h"
#include "cuda_emulator/warp.h"
