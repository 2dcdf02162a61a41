// Vectors of the CPU kernels: loads with conversion, stores with conversion, fused multiply-add.
//
// Note [Instruction sets]
// The kernels are templates on the vector width, compiled once per instruction set: a source file
// defines DEMI_CPU_ISA (the namespace all of it goes to) and DEMI_CPU_VECTOR_BYTES before including
// this header; without that it is the baseline the whole library is compiled for. Files compiled
// for more than the baseline must not instantiate templates or inline functions of the standard
// library: the linker could pick that copy for the whole program, and it would crash on an older
// processor. So these headers use none.
#pragma once

#include <cstddef>
#include <cstdint>

#include <demi/float16.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef DEMI_CPU_ISA
#define DEMI_CPU_ISA baseline
#define DEMI_CPU_VECTOR_BYTES 32
#endif

#define DEMI_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define DEMI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DEMI_UNROLL _Pragma("GCC unroll 32")
// Without AVX the compiler notes how it would pass vectors; they are passed only to inlined code.
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace demi::cpu::DEMI_CPU_ISA {

inline constexpr int kVectorBytes = DEMI_CPU_VECTOR_BYTES;
/// Elements of type E in a vector.
template <class E>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(E));

template <class E>
struct VectorOf {
  typedef E Type __attribute__((vector_size(kVectorBytes)));
};
template <class E>
using Vec = typename VectorOf<E>::Type;
/// What comparing two Vec<float> gives: -1 or 0 in each lane.
using Mask = typename VectorOf<std::int32_t>::Type;
typedef std::uint32_t Bits __attribute__((vector_size(kVectorBytes)));
typedef std::uint16_t HalfBits __attribute__((vector_size(kVectorBytes / 2)));

template <class E>
DEMI_INLINE Vec<E> load(const E* p) {
  Vec<E> v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

template <class E>
DEMI_INLINE void store(E* p, Vec<E> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

template <class E>
DEMI_INLINE Vec<E> broadcast(E x) {
  return x - Vec<E>{};
}

/// a · b + c, rounded once where the processor can.
template <class E>
DEMI_INLINE Vec<E> fma(Vec<E> a, Vec<E> b, Vec<E> c) {
#if DEMI_CPU_VECTOR_BYTES == 64 && defined(__AVX512F__)
  if constexpr (sizeof(E) == 4) {
    return _mm512_fmadd_ps(a, b, c);
  } else {
    return _mm512_fmadd_pd(a, b, c);
  }
#elif DEMI_CPU_VECTOR_BYTES == 32 && defined(__FMA__)
  if constexpr (sizeof(E) == 4) {
    return _mm256_fmadd_ps(a, b, c);
  } else {
    return _mm256_fmadd_pd(a, b, c);
  }
#else
  return a * b + c;
#endif
}

/// max(x, 0) that keeps NaN.
template <class E>
DEMI_INLINE Vec<E> relu(Vec<E> x) {
  const Vec<E> zero = {};
  return zero > x ? zero : x;
}

// ---- Conversion
// -----------------------------------------------------------------------------------

DEMI_INLINE Vec<float> from_half(const Float16* p) {
#if DEMI_CPU_VECTOR_BYTES == 64 && defined(__AVX512F__)
  // The masked forms: GCC 12 warns of an uninitialised value in the others.
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif DEMI_CPU_VECTOR_BYTES == 32 && defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  Vec<float> v;
  for (int i = 0; i < kLanes<float>; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}

DEMI_INLINE void to_half(Float16* p, Vec<float> v) {
#if DEMI_CPU_VECTOR_BYTES == 64 && defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
#elif DEMI_CPU_VECTOR_BYTES == 32 && defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < kLanes<float>; ++i) p[i] = Float16(v[i]);
#endif
}

DEMI_INLINE Vec<float> from_half(const BFloat16* p) {
  HalfBits half;
  __builtin_memcpy(&half, p, sizeof(half));
  return reinterpret_cast<Vec<float>>(__builtin_convertvector(half, Bits) << 16);
}

DEMI_INLINE void to_half(BFloat16* p, Vec<float> v) {
  const Bits bits = reinterpret_cast<Bits>(v);
  const Bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const Bits quiet_nan = (bits >> 16) | 0x40;
  const HalfBits half = __builtin_convertvector(v == v ? rounded : quiet_nan, HalfBits);
  __builtin_memcpy(&p->bits, &half, sizeof(half));
}

/// A vector of compute type E from storage type T.
template <class E, class T>
DEMI_INLINE Vec<E> load_as(const T* p) {
  if constexpr (sizeof(T) == sizeof(E)) {
    return load<E>(p);
  } else {
    return from_half(p);
  }
}

template <class E, class T>
DEMI_INLINE void store_as(T* p, Vec<E> v) {
  if constexpr (sizeof(T) == sizeof(E)) {
    store<E>(p, v);
  } else {
    to_half(p, v);
  }
}

/// The first `count` lanes (0 ≤ count ≤ lanes); the others are zero and not read.
template <class E, class T>
DEMI_INLINE Vec<E> load_some(const T* p, std::int64_t count) {
  T buffer[kLanes<E>] = {};
  __builtin_memcpy(static_cast<void*>(buffer), p, static_cast<std::size_t>(count) * sizeof(T));
  return load_as<E>(buffer);
}

/// Writes the first `count` lanes.
template <class E, class T>
DEMI_INLINE void store_some(T* p, Vec<E> v, std::int64_t count) {
  T buffer[kLanes<E>];
  store_as<E>(buffer, v);
  __builtin_memcpy(static_cast<void*>(p), buffer, static_cast<std::size_t>(count) * sizeof(T));
}

}  // namespace demi::cpu::DEMI_CPU_ISA
