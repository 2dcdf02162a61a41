// The exponential function, in a form that loops over it are vectorised.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace demi::cpu {

/// x = n · ln(2) + r with n an integer and |r| ≤ ln(2) / 2; e^r = 1 + r + rest.
struct ExponentialParts {
  std::int32_t n;
  float r;
  float rest;  ///< e^r - 1 - r, and what rounding r lost
};

/// For |x| < 2^21; other values and NaN give an unspecified n.
[[nodiscard]] inline ExponentialParts exponential_parts(float x) {
  // Adding kRounder leaves x / ln(2) rounded to an integer in the low bits of the mantissa.
  constexpr float kRounder = 0x1.8p23f;
  constexpr float kLn2High = 0.693359375f;  // few enough bits that n · kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  const float rounded = x * 1.44269504f + kRounder;
  const float n = rounded - kRounder;
  const float high = x - n * kLn2High;
  const float low = n * kLn2Low;
  const float r = high - low;
  const float lost = (high - r) - low;
  // Taylor's series to r^7: its error is 2e-9 at the ends of the interval.
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  return {static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(rounded) -
                                    std::bit_cast<std::uint32_t>(kRounder)),
          r, p * r * r + lost};
}

/// 2^n for -126 ≤ n ≤ 127.
[[nodiscard]] inline float power_of_two(std::int32_t n) {
  return std::bit_cast<float>((static_cast<std::uint32_t>(n) + 127u) << 23);
}

/// e^x within 0.8 units in the last place; infinity above 88.73,
/// 0 below -104, a NaN stays one.
[[nodiscard]] inline float exponential(float x) {
  const float bounded = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const ExponentialParts parts = exponential_parts(bounded);
  // 1 + r is rounded; what that loses is put back.
  const float sum = 1.0f + parts.r;
  const float mantissa = sum + (parts.rest + (parts.r - (sum - 1.0f)));
  // 2^n as a product of two powers, because 2^-149 and 2^128 are no normal floats.
  const std::int32_t half = parts.n >> 1;
  return mantissa * power_of_two(half) * power_of_two(parts.n - half);
}

[[nodiscard]] inline double exponential(double x) {
  return std::exp(x);
}

}  // namespace demi::cpu
