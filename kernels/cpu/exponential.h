// The exponential function, in a form that loops over it are vectorised.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace demi::cpu {

/// e^x within 2 units in the last place, also where the result is subnormal; infinity above 88.73,
/// 0 below -104, a NaN stays one.
[[nodiscard]] inline float exponential(float x) {
  // e^x = 2^n · e^r with n an integer and |r| ≤ ln(2) / 2. Adding kRounder leaves x / ln(2) rounded
  // to an integer in the low bits of the mantissa.
  constexpr float kRounder = 0x1.8p23f;
  constexpr float kLn2High = 0.693359375f;  // few enough bits that n · kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  const float bounded = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const float rounded = bounded * 1.44269504f + kRounder;
  const float n = rounded - kRounder;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  // Taylor's series to r^7: its error is 2e-9 at the ends of the interval.
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  // 2^n as a product of two powers, because 2^-149 and 2^128 are no normal floats.
  const auto exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(rounded) -
                                                  std::bit_cast<std::uint32_t>(kRounder));
  const std::int32_t half = exponent >> 1;
  const auto power = [](std::int32_t e) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
  };
  return p * power(half) * power(exponent - half);
}

[[nodiscard]] inline double exponential(double x) {
  return std::exp(x);
}

}  // namespace demi::cpu
