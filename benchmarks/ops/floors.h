// How fast this machine can multiply and add, and move memory, right now: what kernels are measured
// against.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "kernels/cpu/simd.h"
#include "kernels/cpu/thread_pool.h"

namespace demi::benchmarks {

inline double seconds_now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// `steps` rounds of kSums independent multiply-adds in registers; returns how many operations
/// these are.
template <class Vector>
DEMI_INLINE double multiply_add(std::int64_t steps) {
  constexpr int kSums = 12;
  // All different, or the compiler would compute one of them only.
  Vector sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = static_cast<float>(i) - Vector{};
  const Vector a = 0.999F - Vector{};
  const Vector b = 0.001F - Vector{};
  for (std::int64_t step = 0; step < steps; ++step) {
    DEMI_UNROLL
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * a + b;
  }
  benchmark::DoNotOptimize(sums);
  return 2.0 * kSums * static_cast<double>(sizeof(Vector) / sizeof(float) * steps);
}

#if defined(__x86_64__)
typedef float WideVector __attribute__((vector_size(64)));
__attribute__((target("avx512f"), noinline)) inline double multiply_add_wide(std::int64_t steps) {
  return multiply_add<WideVector>(steps);
}
inline bool has_wide_vectors() {
  return __builtin_cpu_supports("avx512f");
}
#else
inline double multiply_add_wide(std::int64_t) {
  return 0;
}
inline bool has_wide_vectors() {
  return false;
}
#endif

/// GFLOP/s of independent fused multiply-adds in registers, on every thread of the pool, with the
/// widest vectors this processor has: the best of a few runs of about a millisecond.
inline double fma_gflops(cpu::ThreadPool& pool) {
  constexpr std::int64_t kSteps = 100'000;
  double best = 0;
  for (int run = 0; run < 8; ++run) {
    double flops = 0;
    const double begin = seconds_now();
    pool.parallel_for(pool.threads(), [&](std::int64_t task, int) {
      const double own = has_wide_vectors() ? multiply_add_wide(kSteps)
                                            : multiply_add<cpu::DEMI_CPU_ISA::Vec<float>>(kSteps);
      if (task == 0) flops = own * pool.threads();
    });
    best = std::max(best, flops / (seconds_now() - begin) * 1e-9);
  }
  return best;
}

/// GB/s, read and written, of y += a · x over vectors larger than any cache, on every thread of the
/// pool: the best of a few runs.
inline double memory_gbps(cpu::ThreadPool& pool) {
  constexpr std::int64_t kElements = std::int64_t{8} << 20;
  constexpr std::int64_t kChunks = 64;
  static std::vector<float> x(static_cast<std::size_t>(kElements), 1.0F);
  static std::vector<float> y(static_cast<std::size_t>(kElements), 1.0F);
  double best = 0;
  for (int run = 0; run < 6; ++run) {
    const double begin = seconds_now();
    pool.parallel_for(kChunks, [&](std::int64_t chunk, int) {
      const std::int64_t first = chunk * (kElements / kChunks);
      const float* from = x.data() + first;
      float* to = y.data() + first;
      for (std::int64_t i = 0; i < kElements / kChunks; ++i) to[i] += 0.5F * from[i];
      benchmark::DoNotOptimize(to[0]);
    });
    best = std::max(best, 12.0 * static_cast<double>(kElements) / (seconds_now() - begin) * 1e-9);
  }
  return best;
}

/// Times `run`, which does `flops` floating-point operations, and reports its best repetition: ms,
/// GFLOP/s and the share of fma_gflops, measured just before and after.
template <class F>
void measure(benchmark::State& state, cpu::ThreadPool& pool, double flops, const F& run) {
  run();
  double floor = fma_gflops(pool);
  double best = 1e9;
  for (auto _ : state) {
    const double begin = seconds_now();
    run();
    best = std::min(best, seconds_now() - begin);
  }
  floor = std::max(floor, fma_gflops(pool));
  state.counters["best_ms"] = best * 1e3;
  state.counters["GFLOP/s"] = flops / best * 1e-9;
  state.counters["of_floor"] = flops / best * 1e-9 / floor;
}

}  // namespace demi::benchmarks
