// Conversions between float and the 16-bit types, inline for kernels.
//
// Rounding is as float16.h says. On x86-64 the float16 conversions are the F16C instructions, which
// neither FTZ nor DAZ nor the rounding mode of the thread can change; elsewhere, integer
// arithmetic. Both give the same bits for every input.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <demi/float16.h>

namespace demi::internal {

/// Exact. A signalling NaN comes out quiet, as from the hardware.
[[nodiscard]] inline float float16_to_float_software(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa · 2^-24, which float holds exactly
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
}

[[nodiscard]] inline std::uint16_t float16_from_float_software(float value) {
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  constexpr std::uint32_t kFirstToInfinity = 0x477ff000u;  // 65520
  constexpr std::uint32_t kSmallestNormal = 0x38800000u;   // 2^-14
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > kInfinity) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= kFirstToInfinity) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude >= kSmallestNormal) {
    // A carry out of the mantissa raises the exponent, which is the right answer.
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | (rounded - ((127u - 15u) << 23)) >> 13);
  }
  // Subnormal: the result counts units of 2^-24, and the float is significand · 2^(exponent - 150).
  const std::uint32_t shift = 126u - (magnitude >> 23);
  if (shift > 24) return static_cast<std::uint16_t>(sign);
  const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t remainder = significand & ((1u << shift) - 1);
  const std::uint32_t tie = 1u << (shift - 1);
  std::uint32_t units = significand >> shift;
  if (remainder > tie || (remainder == tie && (units & 1u) != 0)) ++units;
  return static_cast<std::uint16_t>(sign | units);
}

#if defined(__F16C__)
[[nodiscard]] inline float float16_to_float_f16c(std::uint16_t half) {
  return _cvtsh_ss(half);
}

[[nodiscard]] inline std::uint16_t float16_from_float_f16c(float value) {
  return static_cast<std::uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
}
#endif

[[nodiscard]] inline float to_float(Float16 value) {
#if defined(__F16C__)
  return float16_to_float_f16c(value.bits);
#else
  return float16_to_float_software(value.bits);
#endif
}

[[nodiscard]] inline float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

[[nodiscard]] inline float to_float(float value) {
  return value;
}

/// `value` rounded to T, which is Float16, BFloat16 or float.
template <class T>
[[nodiscard]] T from_float(float value) = delete;

template <>
[[nodiscard]] inline Float16 from_float<Float16>(float value) {
#if defined(__F16C__)
  return Float16::from_bits(float16_from_float_f16c(value));
#else
  return Float16::from_bits(float16_from_float_software(value));
#endif
}

template <>
[[nodiscard]] inline BFloat16 from_float<BFloat16>(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return BFloat16::from_bits(static_cast<std::uint16_t>(bits >> 16 | 0x40u));
  }
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  return BFloat16::from_bits(static_cast<std::uint16_t>(rounded >> 16));
}

template <>
[[nodiscard]] inline float from_float<float>(float value) {
  return value;
}

}  // namespace demi::internal
