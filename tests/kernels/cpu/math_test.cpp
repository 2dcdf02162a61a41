#include "kernels/cpu/math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace demi::cpu {
namespace {

/// The largest error of `function` against `exact`, in units in the last place of the exact value,
/// over a sample of all floats in [low, high]: every 4099th bit pattern.
template <class Function, class Exact>
double worst_ulp(Function function, Exact exact, float low, float high) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits <= 0xffffffffu; bits += 4099) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!(x >= low && x <= high)) continue;
    const double value = exact(static_cast<double>(x));
    const float magnitude = std::fabs(static_cast<float>(value));
    if (!std::isfinite(magnitude)) continue;
    const double ulp = std::nextafter(magnitude, INFINITY) - static_cast<double>(magnitude);
    const double error = std::fabs(static_cast<double>(function(x)) - value) / ulp;
    if (!(error <= worst)) worst = error;  // also for a NaN
  }
  return worst;
}

constexpr float kMax = std::numeric_limits<float>::max();

TEST(Math, LogarithmIsWithinOneUlp) {
  EXPECT_LE(worst_ulp([](float x) { return logarithm(x); }, [](double x) { return std::log(x); },
                      std::numeric_limits<float>::denorm_min(), kMax),
            1.0);
}

TEST(Math, SoftplusIsWithinTwoUlp) {
  const auto exact = [](double x) { return softplus(x); };
  EXPECT_LE(worst_ulp([](float x) { return softplus(x); }, exact, -110, kMax), 2.0);
}

TEST(Math, SigmoidIsWithinTwoUlp) {
  const auto exact = [](double x) { return sigmoid(x); };
  EXPECT_LE(worst_ulp([](float x) { return sigmoid(x); }, exact, -110, kMax), 2.0);
}

TEST(Math, HyperbolicTangentIsWithinTwoUlp) {
  const auto exact = [](double x) { return std::tanh(x); };
  EXPECT_LE(worst_ulp([](float x) { return hyperbolic_tangent(x); }, exact, -kMax, kMax), 2.0);
}

TEST(Math, NormalDistributionIsWithinAFewUlp) {
  const auto cumulative = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  EXPECT_LE(worst_ulp([](float x) { return normal_distribution(x).cumulative; }, cumulative, -14.4f,
                      kMax),
            4.5);
  EXPECT_LE(
      worst_ulp([](float x) { return normal_distribution(x).cumulative; }, cumulative, -1, kMax),
      2.5);
  const auto density = [](double x) { return normal_distribution(x).density; };
  EXPECT_LE(worst_ulp([](float x) { return normal_distribution(x).density; }, density, -14, 14),
            3.5);
}

TEST(Math, HandlesSpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(logarithm(0.0f), -kInf);
  EXPECT_EQ(logarithm(1.0f), 0.0f);
  EXPECT_EQ(logarithm(kInf), kInf);
  EXPECT_TRUE(std::isnan(logarithm(-1.0f)));
  EXPECT_TRUE(std::isnan(logarithm(-kInf)));
  EXPECT_EQ(softplus(kInf), kInf);
  EXPECT_EQ(softplus(-kInf), 0.0f);
  EXPECT_EQ(sigmoid(kInf), 1.0f);
  EXPECT_EQ(sigmoid(-kInf), 0.0f);
  EXPECT_EQ(hyperbolic_tangent(kInf), 1.0f);
  EXPECT_EQ(hyperbolic_tangent(-kInf), -1.0f);
  EXPECT_TRUE(std::signbit(hyperbolic_tangent(-0.0f)));
  EXPECT_EQ(normal_distribution(kInf).cumulative, 1.0f);
  EXPECT_EQ(normal_distribution(-kInf).cumulative, 0.0f);
  EXPECT_EQ(normal_distribution(kInf).density, 0.0f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(logarithm(nan)));
  EXPECT_TRUE(std::isnan(softplus(nan)));
  EXPECT_TRUE(std::isnan(sigmoid(nan)));
  EXPECT_TRUE(std::isnan(hyperbolic_tangent(nan)));
  EXPECT_TRUE(std::isnan(normal_distribution(nan).cumulative));
  EXPECT_TRUE(std::isnan(normal_distribution(nan).density));
}

}  // namespace
}  // namespace demi::cpu
