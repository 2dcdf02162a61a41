// The two 16-bit floating-point storage types. They store and convert; arithmetic is done in float.
//
// Conversions from float round to nearest, ties to even, as IEEE 754 and the hardware instructions
// do: overflow gives infinity (float16: from 65520 on), values below half the smallest subnormal
// give a signed zero, a NaN stays a NaN (quieted, its leading payload bits kept).
#pragma once

#include <cstdint>

namespace demi {

/// IEEE 754 binary16.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;

  [[nodiscard]] static constexpr Float16 from_bits(std::uint16_t bits) {
    Float16 h;
    h.bits = bits;
    return h;
  }
  /// Compares bit patterns: NaN equals itself, +0 and -0 differ.
  friend constexpr bool operator==(Float16 a, Float16 b) = default;
};

/// bfloat16: the upper half of a binary32.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value);
  explicit operator float() const;

  [[nodiscard]] static constexpr BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 b;
    b.bits = bits;
    return b;
  }
  /// Compares bit patterns: NaN equals itself, +0 and -0 differ.
  friend constexpr bool operator==(BFloat16 a, BFloat16 b) = default;
};

}  // namespace demi
