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

/// GFLOP/s of independent fused multiply-adds in registers, on every thread of the pool, with the
/// vectors all of demi is compiled for: the best of a few runs of about a millisecond.
inline double fma_gflops(cpu::ThreadPool& pool) {
  namespace simd = cpu::DEMI_CPU_ISA;
  constexpr int kSums = 12;
  constexpr std::int64_t kSteps = 100'000;
  double best = 0;
  for (int run = 0; run < 8; ++run) {
    const double begin = seconds_now();
    pool.parallel_for(pool.threads(), [&](std::int64_t, int) {
      // All different, or the compiler would compute one of them only.
      simd::Vec<float> sums[kSums];
      for (int i = 0; i < kSums; ++i) sums[i] = simd::broadcast(static_cast<float>(i));
      const simd::Vec<float> a = simd::broadcast(0.999F);
      const simd::Vec<float> b = simd::broadcast(0.001F);
      for (std::int64_t step = 0; step < kSteps; ++step) {
        DEMI_UNROLL
        for (int i = 0; i < kSums; ++i) sums[i] = simd::fma<float>(sums[i], a, b);
      }
      benchmark::DoNotOptimize(sums);
    });
    const double flops = 2.0 * kSums * simd::kLanes<float> * kSteps * pool.threads();
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
