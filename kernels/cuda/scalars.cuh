// Small operations on the device.
#pragma once

#include <demi/ops/loss_scale.h>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/scalars.h"
#include "kernels/cuda/schedules.cuh"

namespace demi::cuda {

__device__ inline void update_loss_scale(const ScalarInstruction& i) {
  auto* scale = static_cast<float*>(i.outputs[0]);
  auto* good_steps = static_cast<std::int64_t*>(i.outputs[1]);
  auto* skipped_steps = static_cast<std::int64_t*>(i.outputs[2]);
  auto* consecutive_skips = static_cast<std::int64_t*>(i.outputs[3]);
  const std::int64_t growth_steps = i.integers[0];
  const bool dynamic = i.integers[1] != 0;
  float factor = 1;
  if (*static_cast<const bool*>(i.inputs[0])) {
    *consecutive_skips = 0;
    ++*good_steps;
    if (dynamic && *good_steps >= growth_steps) factor = 2;
  } else {
    ++*skipped_steps;
    ++*consecutive_skips;
    *good_steps = 0;
    if (dynamic) factor = 0.5f;
  }
  if (factor == 1) return;
  *good_steps = 0;
  const float least = static_cast<float>(ops::kMinLossScale);
  const float most = static_cast<float>(ops::kMaxLossScale);
  const float scaled = *scale * factor;
  *scale = scaled < least ? least : (scaled > most ? most : scaled);
}

__device__ inline void accumulate(const ScalarInstruction& i) {
  const double value = AnyInput(i.inputs[0], static_cast<DType>(i.dtypes[0])).get<double>(0);
  const double weight = AnyInput(i.inputs[1], static_cast<DType>(i.dtypes[1])).get<double>(0);
  if (isfinite(value)) {
    *static_cast<double*>(i.outputs[0]) += value * weight;
    *static_cast<double*>(i.outputs[1]) += weight;
  } else {
    ++*static_cast<std::int64_t*>(i.outputs[2]);
  }
}

__device__ inline void cycle(const ScalarInstruction& i) {
  auto* position = static_cast<std::int64_t*>(i.outputs[0]);
  const bool applied = *static_cast<const bool*>(i.inputs[0]);
  const bool ends = applied && *position + 1 >= i.integers[0];
  if (applied) *position = ends ? 0 : *position + 1;
  *static_cast<bool*>(i.outputs[1]) = ends;
}

/// In C, the running average's precision, by all threads of a block.
template <class C>
__device__ void average(const ScalarInstruction& i) {
  const auto keep = static_cast<C>(i.numbers[0]);
  const auto add = static_cast<C>(1 - i.numbers[0]);
  const AnyInput value(i.inputs[0], static_cast<DType>(i.dtypes[0]));
  const AnyInput old(i.outputs[0], static_cast<DType>(i.dtypes[1]));
  const AnyOutput running(i.outputs[0], static_cast<DType>(i.dtypes[1]));
  for (std::int64_t k = threadIdx.x; k < i.integers[0]; k += blockDim.x) {
    running.set(k, old.get<C>(k) * keep + value.get<C>(k) * add);
  }
}

/// One instruction that is not a moving average, by one thread.
__device__ inline void run_number(const ScalarInstruction& i) {
  switch (i.op) {
    case ScalarOp::kIncrement:
      if (*static_cast<const bool*>(i.inputs[0])) ++*static_cast<std::int64_t*>(i.outputs[0]);
      return;
    case ScalarOp::kCycle:
      return cycle(i);
    case ScalarOp::kAccumulate:
      return accumulate(i);
    case ScalarOp::kLossScaleUpdate:
      return update_loss_scale(i);
    case ScalarOp::kReciprocal:
      *static_cast<float*>(i.outputs[0]) = 1 / *static_cast<const float*>(i.inputs[0]);
      return;
    default:
      *static_cast<float*>(i.outputs[0]) =
          static_cast<float>(schedule_rate(i, *static_cast<const std::int64_t*>(i.inputs[0])));
  }
}

/// One instruction by the threads of a block.
__device__ inline void run_instruction(const ScalarInstruction& i) {
  if (i.op == ScalarOp::kMovingAverage) {
    if (!*static_cast<const bool*>(i.inputs[1])) return;
    const bool wide = static_cast<DType>(i.dtypes[1]) == DType::kFloat64;
    return wide ? average<double>(i) : average<float>(i);
  }
  if (threadIdx.x == 0) run_number(i);
}

/// A program without moving averages, by the first thread of a block.
__device__ inline void run_program(const ScalarProgram& program) {
  if (threadIdx.x != 0) return;
  for (std::int64_t i = 0; i < program.count; ++i) run_number(program.instructions[i]);
}

/// What a CarryingKernel's launch goes on with: `counter` is its Context::block_counter. Reached by
/// all threads of a one-dimensional grid, each once, when its block has done all else.
__device__ inline void carry_out(const ScalarProgram& program, unsigned* counter) {
  if (program.count > 0 && is_last_block(counter)) run_program(program);
}

}  // namespace demi::cuda
