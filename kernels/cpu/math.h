// Elementary functions in a form that loops over them are vectorised: no branches, no tables.
//
// The bounds of the float versions, in units in the last place (ulp), are asserted in
// tests/kernels/cpu/math_test.cpp over a dense sample of all floats; a NaN stays one. The double
// versions call the standard library. The coefficients are minimax fits of our own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/exponential.h"

namespace demi::cpu {

/// u - log(1 + u) for 0.7 < 1 + u < 2.1.
[[nodiscard]] inline float log1p_shortfall(float u) {
  // With s = u / (2 + u), log(1 + u) = 2 atanh(s) = u - s · (u - s² · Q(s²)), where u is exact.
  const float s = u / (2.0f + u);
  const float w = s * s;
  float q = 0.24289557f;
  q = q * w + 0.21430741f;
  q = q * w + 0.28616597f;
  q = q * w + 0.39998888f;
  q = q * w + 0.66666675f;
  return s * (u - w * q);
}

/// Within 1 ulp; -inf at 0, NaN below.
[[nodiscard]] inline float logarithm(float x) {
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3u;
  constexpr float kLn2High = 0.693359375f;  // few enough bits that e · kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool subnormal = x < 0x1p-126f;
  const float normal = subnormal ? x * 0x1p23f : x;
  // x = 2^e · (1 + u) with 1 + u between sqrt(1/2) and sqrt(2).
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(normal) - kSqrtHalf;
  const float e =
      static_cast<float>(static_cast<std::int32_t>(bits) >> 23) - (subnormal ? 23.0f : 0.0f);
  const float u = std::bit_cast<float>((bits & 0x7fffffu) + kSqrtHalf) - 1.0f;
  const float finite = e * kLn2High + (u - (log1p_shortfall(u) - e * kLn2Low));
  const float positive = x < kInfinity ? finite : x;  // infinity and NaN give themselves
  const float not_positive = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : -kInfinity;
  return x <= 0.0f ? not_positive : positive;
}
[[nodiscard]] inline double logarithm(double x) {
  return std::log(x);
}

/// log(1 + e^x), within 2 ulp.
[[nodiscard]] inline float softplus(float x) {
  const float e = exponential(-std::fabs(x));
  const float tail = e - log1p_shortfall(e);
  return x > 0.0f ? x + tail : (x <= 0.0f ? tail : x);
}
[[nodiscard]] inline double softplus(double x) {
  return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

/// 1 / (1 + e^-x), within 2 ulp.
[[nodiscard]] inline float sigmoid(float x) {
  const float e = exponential(-std::fabs(x));
  const float sum = 1.0f + e;
  const float lost = e - (sum - 1.0f);  // put back to first order
  const float quotient = (x < 0.0f ? e : 1.0f) / sum;
  return quotient - quotient * lost;
}
[[nodiscard]] inline double sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/// Within 2 ulp.
[[nodiscard]] inline float hyperbolic_tangent(float x) {
  // tanh|x| = t / (t + 2) with t = e^2|x| - 1 = 2^n · (e^r - 1) + (2^n - 1): nothing cancels.
  const float magnitude = std::fabs(x);
  const ExponentialParts parts = exponential_parts(magnitude > 10.0f ? 20.0f : 2.0f * magnitude);
  const float power = power_of_two(parts.n);
  const float t = power * (parts.r + parts.rest) + (power - 1.0f);
  const float sum = t + 2.0f;
  const float quotient = t / sum;
  // What rounding the sum lost is put back where it matters: 1 / sum = (1 - quotient) / 2.
  const float lost = t < 16.0f ? t - (sum - 2.0f) : 0.0f;
  return std::copysign(quotient - quotient * lost * (0.5f - 0.5f * quotient), x);
}
[[nodiscard]] inline double hyperbolic_tangent(double x) {
  return std::tanh(x);
}

/// A point of the standard normal distribution, from x clamped to [-14.5, 14.5] (beyond which
/// float's density and lower tail are 0).
template <class T>
struct Normal {
  T density;     ///< exp(-x² / 2) / sqrt(2π)
  T cumulative;  ///< Φ(x)
};

/// The density within 3.5 ulp; Φ within 4.5, and 2.5 from x = -1 on.
[[nodiscard]] inline Normal<float> normal_distribution(float x) {
  constexpr float kSqrtHalf = 0.70710678f;
  constexpr float kDensityAtZero = 0.39894228f;
  const float bounded = std::fabs(x) > 14.5f ? 14.5f : std::fabs(x);
  // exp(-x²/2) with the rounding error of the exponent put back: it is large for large x.
  const float square = bounded * bounded;
  const float lost = std::fma(bounded, bounded, -square);
  const float e = exponential(-0.5f * square) * (1.0f - 0.5f * lost);
  // Far from 0, Φ(-|x|) = erfc(z) / 2 = e^-z² · P(y) / (2 + 4z), smooth in y = (z - 2) / (z + 2).
  const float z = bounded * kSqrtHalf;
  const float y = (z - 2.0f) / (z + 2.0f);
  float p = -3.9500513e-4f;
  p = p * y - 1.2204919e-3f;
  p = p * y + 1.3122910e-3f;
  p = p * y + 8.6237817e-3f;
  p = p * y - 8.0611165e-3f;
  p = p * y - 5.4202195e-2f;
  p = p * y + 1.6405573e-1f;
  p = p * y - 1.6603161e-1f;
  p = p * y - 9.2764001e-2f;
  p = p * y + 1.2769784f;
  const float tail = e * p / (2.0f + 4.0f * z);
  const float far = x > 0.0f ? 1.0f - tail : tail;
  // Near 0, Φ(x) = 1/2 + x · G(x²).
  float g = -7.6542087e-6f;
  g = g * square + 1.1348637e-4f;
  g = g * square - 1.1863300e-3f;
  g = g * square + 9.9733234e-3f;
  g = g * square - 6.6490360e-2f;
  g = g * square + 3.9894228e-1f;
  const float near = 0.5f + x * g;
  return {kDensityAtZero * e, bounded < 1.0f ? near : far};
}
[[nodiscard]] inline Normal<double> normal_distribution(double x) {
  return {0.39894228040143267794 * std::exp(-0.5 * x * x),
          0.5 * std::erfc(-x * 0.70710678118654752440)};
}

}  // namespace demi::cpu
