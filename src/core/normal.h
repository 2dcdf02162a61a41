// Normally distributed numbers from random words, one word each: no rejection and no state, so that
// element i of a tensor depends on word i of its stream (philox.h) alone.
#pragma once

#include <cmath>
#include <cstdint>

namespace demi {

/// The x below which a standard normal value falls with probability `p`, for p in [2^-34, 1 -
/// 2^-34], to a relative error of about 1e-15. Rational approximations of M. J. Wichura, "Algorithm
/// AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988).
[[nodiscard]] inline double normal_quantile(double p) {
  constexpr double kCentreNumerator[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                         1.9715909503065514427e3, 1.3731693765509461125e4,
                                         4.5921953931549871457e4, 6.7265770927008700853e4,
                                         3.3430575583588128105e4, 2.5090809287301226727e3};
  constexpr double kCentreDenominator[] = {1.0,
                                           4.2313330701600911252e1,
                                           6.8718700749205790830e2,
                                           5.3941960214247511077e3,
                                           2.1213794301586595867e4,
                                           3.9307895800092710610e4,
                                           2.8729085735721942674e4,
                                           5.2264952788528545610e3};
  constexpr double kTailNumerator[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                       5.76949722146069140550e0,  3.64784832476320460504e0,
                                       1.27045825245236838258e0,  2.41780725177450611770e-1,
                                       2.27238449892691845833e-2, 7.74545014278341407640e-4};
  constexpr double kTailDenominator[] = {1.0,
                                         2.05319162663775882187e0,
                                         1.67638483018380384940e0,
                                         6.89767334985100004550e-1,
                                         1.48103976427480074590e-1,
                                         1.51986665636164571966e-2,
                                         5.47593808499534494600e-4,
                                         1.05075007164441684324e-9};
  const auto ratio = [](const double(&numerator)[8], const double(&denominator)[8], double r) {
    double n = 0;
    double d = 0;
    for (int i = 7; i >= 0; --i) {
      n = n * r + numerator[i];
      d = d * r + denominator[i];
    }
    return n / d;
  };
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    return q * ratio(kCentreNumerator, kCentreDenominator, 0.180625 - q * q);
  }
  const double tail = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double x = ratio(kTailNumerator, kTailDenominator, tail - 1.6);
  return q < 0 ? -x : x;
}

/// Standard normal: mean 0, deviation 1. Monotonic in `word`, odd about its middle, within ±6.4.
[[nodiscard]] inline float normal_float(std::uint32_t word) {
  return static_cast<float>(normal_quantile((word + 0.5) * 0x1p-32));
}

/// Standard normal conditioned on lying in (-2, 2); its own deviation is about 0.8796.
[[nodiscard]] inline float truncated_normal_float(std::uint32_t word) {
  constexpr double kBelowMinusTwo = 0.022750131948179207;  // the probability of a value under -2
  const double u = (word + 0.5) * 0x1p-32;
  return static_cast<float>(normal_quantile(kBelowMinusTwo + u * (1 - 2 * kBelowMinusTwo)));
}

}  // namespace demi
