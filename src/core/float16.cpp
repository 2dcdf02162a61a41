#include <demi/float16.h>

#include "src/core/float16_convert.h"

namespace demi {

Float16::Float16(float value) : bits(internal::from_float<Float16>(value).bits) {}
Float16::operator float() const {
  return internal::to_float(*this);
}

BFloat16::BFloat16(float value) : bits(internal::from_float<BFloat16>(value).bits) {}
BFloat16::operator float() const {
  return internal::to_float(*this);
}

namespace internal {

void convert(const Float16* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

void convert(const float* from, Float16* to, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX2__) && defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
#endif
  for (; i < count; ++i) to[i] = from_float<Float16>(from[i]);
}

void convert(const BFloat16* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX2__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), bits);
  }
#endif
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

void convert(const float* from, BFloat16* to, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__AVX2__)
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i below_tie = _mm256_set1_epi32(0x7fff);
  const __m256i quiet = _mm256_set1_epi32(0x40);
  for (; i + 8 <= count; i += 8) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, one);
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(below_tie, odd)), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, quiet), nan);
    // packus works within 128-bit lanes; the permutation brings the two used quarters together.
    const __m256i packed =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), _MM_SHUFFLE(3, 1, 2, 0));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_castsi256_si128(packed));
  }
#endif
  for (; i < count; ++i) to[i] = from_float<BFloat16>(from[i]);
}

}  // namespace internal
}  // namespace demi
