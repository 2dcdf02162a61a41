// Bodies of the micro-kernels with a max-pooling.
#pragma once

#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/simd.h"

namespace demi::cpu::DEMI_CPU_ISA {

DEMI_INLINE std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Calls f with the pointer typed as the storage says.
template <class E, class F>
DEMI_INLINE void with_type(const void* data, Storage storage, const F& f) {
  if constexpr (sizeof(E) == sizeof(float)) {
    if (storage == Storage::kFloat16) return f(static_cast<const Float16*>(data));
    if (storage == Storage::kBFloat16) return f(static_cast<const BFloat16*>(data));
  }
  f(static_cast<const E*>(data));
}

template <class E, class F>
DEMI_INLINE void with_type(void* data, Storage storage, const F& f) {
  if constexpr (sizeof(E) == sizeof(float)) {
    if (storage == Storage::kFloat16) return f(static_cast<Float16*>(data));
    if (storage == Storage::kBFloat16) return f(static_cast<BFloat16*>(data));
  }
  f(static_cast<E*>(data));
}

/// Lanes of integers as wide as E.
template <class E>
using Places = decltype(Vec<E>{} > Vec<E>{});

/// Takes `value` at place `current` if it is more than `best`, or the first NaN.
template <class E>
DEMI_INLINE void take_larger(Vec<E>& best, Places<E>& place, Vec<E> value, Places<E> current) {
  const Places<E> take = ~(value <= best) & (best == best);
  best = take ? value : best;
  place = take ? current : place;
}

template <class E, class T>
DEMI_INLINE void store_pooled(Vec<E> best, Places<E> place, T* y, std::uint8_t* index,
                              std::int64_t count) {
  typedef std::uint8_t Bytes __attribute__((vector_size(kLanes<E>)));
  const Bytes bytes = __builtin_convertvector(place, Bytes);
  if (count >= kLanes<E>) {
    store_as<E>(y, best);
    __builtin_memcpy(index, &bytes, sizeof(bytes));
  } else {
    store_some<E>(y, best, count);
    __builtin_memcpy(index, &bytes, static_cast<std::size_t>(count));
  }
}

/// One vector of channels of one window.
template <class E, class T>
DEMI_INLINE void pool_window(const PoolJob<E>& job, const E* values, T* y, std::uint8_t* index,
                             std::int64_t count) {
  Vec<E> best = load<E>(values);
  Places<E> place = {};
  Places<E> current = {};
  for (std::int64_t i = 0; i < job.size_h; ++i, values += job.row_stride) {
    for (std::int64_t j = 0; j < job.size_w; ++j) {
      // The very first candidate is `best` itself: not taken, be it a number or NaN.
      take_larger<E>(best, place, load<E>(values + j * job.width), current);
      current = current + 1;
    }
  }
  store_pooled<E>(best, place, y, index, count);
}

template <class E>
void pool(const PoolJob<E>& job) {
  with_type<E>(job.y, job.y_storage, [&](auto* y) {
    std::uint8_t* index = job.index;
    for (std::int64_t i = 0; i < job.out_rows; ++i) {
      const E* row = job.values + i * job.stride_h * job.row_stride;
      for (std::int64_t j = 0; j < job.out_columns; ++j) {
        const E* values = row + j * job.stride_w * job.width;
        for (std::int64_t c = 0; c < job.channels; c += kLanes<E>) {
          pool_window<E>(job, values + c, y + c, index + c, job.channels - c);
        }
        y += job.y_stride;
        index += job.y_stride;
      }
    }
  });
}

/// The windows of kVectors vectors of channels: four pixels at a time, in kVectors · 4 registers.
template <class E, int kVectors, class T>
DEMI_INLINE void run_typed_windows(const WindowsJob<E>& job, T* y) {
  std::uint8_t* index = job.index;
  for (std::int64_t w = 0; w < job.windows; ++w, y += job.y_stride, index += job.y_stride) {
    const E* const first = job.a + job.a_offsets[w];
    const E* const pixels[4] = {first, first + job.to_right, first + job.to_below,
                                first + job.to_below + job.to_right};
    Vec<E> sums[4][kVectors];
    DEMI_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const Vec<E> init = job.init != nullptr ? load<E>(job.init + v * kLanes<E>) : Vec<E>{};
      DEMI_UNROLL
      for (int i = 0; i < 4; ++i) sums[i][v] = init;
    }
    const E* b = job.b;
    for (const std::int32_t *step = job.a_steps, *end = step + job.depth; step != end; ++step) {
      const std::int64_t at = *step;
      DEMI_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Vec<E> x = broadcast<E>(pixels[i][at]);
        DEMI_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          sums[i][v] = fma<E>(x, load<E>(b + v * kLanes<E>), sums[i][v]);
        }
      }
      b += job.b_stride;
    }
    DEMI_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      Places<E> place = {};
      Places<E> current = {};
      Vec<E> best = job.relu ? relu<E>(sums[0][v]) : sums[0][v];
      DEMI_UNROLL
      for (int i = 1; i < 4; ++i) {
        current = current + 1;
        take_larger<E>(best, place, job.relu ? relu<E>(sums[i][v]) : sums[i][v], current);
      }
      const std::int64_t c = v * kLanes<E>;
      if (job.columns > c) store_pooled<E>(best, place, y + c, index + c, job.columns - c);
    }
  }
}

template <class E, int kVectors>
void run_windows(const WindowsJob<E>& job) {
  with_type<E>(
      job.y, job.y_storage, [&](auto* y) __attribute__((always_inline)) {
        run_typed_windows<E, kVectors>(job, y);
      });
}

}  // namespace demi::cpu::DEMI_CPU_ISA
