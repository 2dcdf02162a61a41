// The only file that knows which compiler reads the kernels: nvcc for a GPU, or a C++ compiler for
// the emulator of the tests. Kernel sources include it and use nothing else of CUDA's dialect.
//
// Rules for kernels, so that both compilers accept them:
//  - start them with launch() of launch.cuh, never with <<<>>>; no inline PTX, textures,
//    __constant__ symbols, cooperative groups, extended lambdas or waits between blocks (the last
//    block may go on alone: atomics and __threadfence);
//  - declare shared memory with DEMI_SHARED and DEMI_DYNAMIC_SHARED, unrolling with DEMI_UNROLL;
//  - every thread of a block reaches every barrier; shuffles name their mask, and the block size is
//    a multiple of 32 wherever the mask is full;
//  - convert 16-bit values at load and store, compute in float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifdef __CUDACC__

/// A block's shared array: DEMI_SHARED(float, tile, [32][33]).
#define DEMI_SHARED(type, name, extents) __shared__ type name extents
/// The shared memory whose size is given at the launch; at most one per kernel.
#define DEMI_DYNAMIC_SHARED(type, name)                       \
  extern __shared__ __align__(16) unsigned char name##_raw[]; \
  type* name = reinterpret_cast<type*>(name##_raw)
#define DEMI_UNROLL _Pragma("unroll")

#else
#include "cuda_emulator/device.h"
#endif
