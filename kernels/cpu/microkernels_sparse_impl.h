// Bodies of the micro-kernels that skip the zeros a max-pooling leaves in a gradient.
#pragma once

#include <utility>

#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/simd.h"

namespace demi::cpu::DEMI_CPU_ISA {

template <class E, int kVectors>
void sum_lists(const ListsJob<E>& job) {
  const std::int64_t last_columns = job.columns - (kVectors - 1) * kLanes<E>;
  const E* const rows = job.rows;
  for (const EntryList *list = job.lists, *end = list + job.list_count; list != end; ++list) {
    if (list->begin == list->end) continue;
    E* out = job.sums + list->target;
    Vec<E> sums[kVectors];
    DEMI_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[v] = load<E>(out + v * kLanes<E>);
    const Entry<E>* entry = job.entries + list->begin;
    const Entry<E>* const last = job.entries + list->end;
    do {
      const Vec<E> value = broadcast<E>(entry->value);
      const E* row = rows + entry->offset;
      DEMI_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        sums[v] = fma<E>(value, load<E>(row + v * kLanes<E>), sums[v]);
      }
    } while (++entry != last);
    DEMI_UNROLL
    for (int v = 0; v + 1 < kVectors; ++v) store<E>(out + v * kLanes<E>, sums[v]);
    out += (kVectors - 1) * kLanes<E>;
    if (last_columns == kLanes<E>) {
      store<E>(out, sums[kVectors - 1]);
    } else {
      store_some<E>(out, sums[kVectors - 1], last_columns);
    }
  }
}

/// Lane by lane the element of `table` [4] that `index` names.
template <class E>
DEMI_INLINE Vec<E> select_four(const E* table, const std::uint8_t* index) {
  Vec<E> v;
  for (int i = 0; i < kLanes<E>; ++i) v[i] = table[index[i]];
  return v;
}

#if (DEMI_CPU_VECTOR_BYTES == 64 && defined(__AVX512F__)) || \
    (DEMI_CPU_VECTOR_BYTES == 32 && defined(__AVX2__))
#define DEMI_CPU_SELECTS_IN_REGISTERS

/// A byte per lane, widened. GCC 12 would convert lane by lane.
DEMI_INLINE Mask widen_bytes(const std::uint8_t* bytes) {
#if DEMI_CPU_VECTOR_BYTES == 64
  return reinterpret_cast<Mask>(
      _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
#else
  return reinterpret_cast<Mask>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))));
#endif
}

/// The same with the indices in a vector: a shuffle within 16 bytes.
DEMI_INLINE Vec<float> select_four(const float* table, Mask index) {
#if DEMI_CPU_VECTOR_BYTES == 64
  const __m512 candidates = _mm512_maskz_broadcast_f32x4(0xffff, _mm_loadu_ps(table));
  return _mm512_maskz_permutevar_ps(0xffff, candidates, reinterpret_cast<__m512i>(index));
#else
  const __m256 candidates = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(table));
  return _mm256_permutevar_ps(candidates, reinterpret_cast<__m256i>(index));
#endif
}
#endif

/// kSelectTaps taps of one vector of channels.
template <class E>
DEMI_INLINE void select_block(const SelectJob<E>& job, const E* tables, std::int64_t channel,
                              E* out) {
  const std::int64_t count = job.channels - channel;
  Vec<E> sums[kSelectTaps];
  DEMI_UNROLL
  for (int t = 0; t < kSelectTaps; ++t) sums[t] = load<E>(out + t * job.sums_stride);
  for (std::int64_t w = 0; w < job.windows; ++w, tables += job.taps * 4) {
    const std::int64_t at = w * job.channels + channel;
    std::uint8_t few[kLanes<E>] = {};
    const std::uint8_t* index = job.index + at;
    Vec<E> g;
    if (count >= kLanes<E>) {
      g = load<E>(job.g + at);
    } else {
      g = load_some<E>(job.g + at, count);
      __builtin_memcpy(few, index, static_cast<std::size_t>(count));
      index = few;
    }
#if defined(DEMI_CPU_SELECTS_IN_REGISTERS)
    if constexpr (sizeof(E) == sizeof(float)) {
      const Mask places = widen_bytes(index);
      DEMI_UNROLL
      for (int t = 0; t < kSelectTaps; ++t) {
        sums[t] = fma<E>(select_four(tables + t * 4, places), g, sums[t]);
      }
      continue;
    }
#endif
    for (int t = 0; t < kSelectTaps; ++t) {
      sums[t] = fma<E>(select_four<E>(tables + t * 4, index), g, sums[t]);
    }
  }
  DEMI_UNROLL
  for (int t = 0; t < kSelectTaps; ++t) store<E>(out + t * job.sums_stride, sums[t]);
}

template <class E>
void select(const SelectJob<E>& job) {
  for (std::int64_t tap = 0; tap < job.taps; tap += kSelectTaps) {
    for (std::int64_t c = 0; c < job.channels; c += kLanes<E>) {
      select_block<E>(job, job.tables + tap * 4, c, job.sums + tap * job.sums_stride + c);
    }
  }
}

template <class E, int... kI>
void set_lists(MicroKernels<E>& kernels, std::integer_sequence<int, kI...>) {
  ((kernels.lists[kI] = sum_lists<E, kI + 1>), ...);
}

}  // namespace demi::cpu::DEMI_CPU_ISA
