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

/// The low bytes of each lane.
template <class E>
DEMI_INLINE void store_bytes(Places<E> places, std::uint8_t* out, std::int64_t count) {
  typedef std::uint8_t Bytes __attribute__((vector_size(kLanes<E>)));
  Bytes bytes;
#if DEMI_CPU_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(E) == sizeof(float)) {
    const __m128i narrow = _mm512_maskz_cvtepi32_epi8(0xffff, reinterpret_cast<__m512i>(places));
    __builtin_memcpy(&bytes, &narrow, sizeof(bytes));
  } else {
    bytes = __builtin_convertvector(places, Bytes);
  }
#elif DEMI_CPU_VECTOR_BYTES == 32 && defined(__AVX2__)
  // GCC 12 would convert lane by lane.
  if constexpr (sizeof(E) == sizeof(float)) {
    const auto wide = reinterpret_cast<__m256i>(places);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    const __m128i narrow = _mm_packus_epi16(words, words);
    __builtin_memcpy(&bytes, &narrow, sizeof(bytes));
  } else {
    bytes = __builtin_convertvector(places, Bytes);
  }
#else
  bytes = __builtin_convertvector(places, Bytes);
#endif
  if (count >= kLanes<E>) {
    __builtin_memcpy(out, &bytes, sizeof(bytes));
  } else {
    __builtin_memcpy(out, &bytes, static_cast<std::size_t>(count));
  }
}

template <class E>
DEMI_INLINE bool any_nan(Vec<E> v) {
#if DEMI_CPU_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(E) == sizeof(float)) return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q) != 0;
#elif DEMI_CPU_VECTOR_BYTES == 32 && defined(__AVX2__)
  if constexpr (sizeof(E) == sizeof(float)) {
    return _mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)) != 0;
  }
#endif
  const Places<E> unordered = v != v;
  bool any = false;
  for (int i = 0; i < kLanes<E>; ++i) any = any || unordered[i] != 0;
  return any;
}

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
  if (count >= kLanes<E>) {
    store_as<E>(y, best);
  } else {
    store_some<E>(y, best, count);
  }
  store_bytes<E>(place, index, count);
}

/// The first largest of four, after relu if asked, and its place.
template <class E>
DEMI_INLINE void pool_four(Vec<E> a, Vec<E> b, Vec<E> c, Vec<E> d, bool apply_relu, Vec<E>& best,
                           Places<E>& place) {
  // A sum is NaN if a summand is; that infinities of both signs take this way too does no harm.
  if (__builtin_expect(any_nan<E>((a + b) + (c + d)), 0)) {
    const Vec<E> values[4] = {a, b, c, d};
    place = Places<E>{};
    Places<E> current = {};
    best = apply_relu ? relu<E>(a) : a;
    for (int i = 1; i < 4; ++i) {
      current = current + 1;
      take_larger<E>(best, place, apply_relu ? relu<E>(values[i]) : values[i], current);
    }
    return;
  }
  const Places<E> right = b > a;
  const Places<E> right_below = d > c;
  const Vec<E> above = b > a ? b : a;
  const Vec<E> below = d > c ? d : c;
  const Places<E> is_below = below > above;
  best = below > above ? below : above;
  place = (is_below & 2) - (is_below ? right_below : right);
  if (apply_relu) {
    // All at most zero: all equal, so the first.
    const Places<E> positive = best > Vec<E>{};
    best = positive ? best : Vec<E>{};
    place = place & positive;
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

/// The same of a window of 2 × 2.
template <class E, class T>
DEMI_INLINE void pool_square(const PoolJob<E>& job, const E* values, T* y, std::uint8_t* index,
                             std::int64_t count) {
  const E* below = values + job.row_stride;
  Vec<E> best;
  Places<E> place;
  pool_four<E>(load<E>(values), load<E>(values + job.width), load<E>(below),
               load<E>(below + job.width), false, best, place);
  store_pooled<E>(best, place, y, index, count);
}

template <class E>
void pool(const PoolJob<E>& job) {
  const bool square = job.size_h == 2 && job.size_w == 2;
  with_type<E>(job.y, job.y_storage, [&](auto* y) {
    std::uint8_t* index = job.index;
    for (std::int64_t i = 0; i < job.out_rows; ++i) {
      const E* row = job.values + i * job.stride_h * job.row_stride;
      for (std::int64_t j = 0; j < job.out_columns; ++j) {
        const E* values = row + j * job.stride_w * job.width;
        for (std::int64_t c = 0; c < job.channels; c += kLanes<E>) {
          if (square) {
            pool_square<E>(job, values + c, y + c, index + c, job.channels - c);
          } else {
            pool_window<E>(job, values + c, y + c, index + c, job.channels - c);
          }
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
      Vec<E> best;
      Places<E> place;
      pool_four<E>(sums[0][v], sums[1][v], sums[2][v], sums[3][v], job.relu, best, place);
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
