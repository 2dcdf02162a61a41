#include "src/core/normal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "src/core/philox.h"

namespace demi {
namespace {

TEST(NormalQuantile, InvertsTheDistribution) {
  const auto probability_below = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (double x = -6.2; x <= 0; x += 0.001) {
    ASSERT_NEAR(normal_quantile(probability_below(x)), x, 1e-14 * (1 + std::abs(x)));
  }
  EXPECT_EQ(normal_quantile(0.5), 0.0);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(normal_quantile(0x1p-34), -6.4439345265385635, 1e-13);
}

struct Moments {
  double mean = 0, variance = 0, smallest = 0, largest = 0;
};

template <class Draw>
Moments moments_of(Draw draw, std::uint64_t count) {
  Moments m;
  for (std::uint64_t block = 0; block < count / 4; ++block) {
    for (const std::uint32_t word : philox4x32(42, block, 7)) {
      const double value = draw(word);
      m.mean += value;
      m.variance += value * value;
      m.smallest = std::min(m.smallest, value);
      m.largest = std::max(m.largest, value);
    }
  }
  m.mean /= static_cast<double>(count);
  m.variance = m.variance / static_cast<double>(count) - m.mean * m.mean;
  return m;
}

// Bounds of five standard errors for 400,000 draws.
TEST(NormalFloat, HasTheRightMoments) {
  const Moments normal = moments_of(normal_float, 400000);
  EXPECT_NEAR(normal.mean, 0, 5.0 / 632);
  EXPECT_NEAR(normal.variance, 1, 5 * 1.4142 / 632);
  EXPECT_LT(normal.smallest, -4);
  EXPECT_GT(normal.largest, 4);
  const Moments truncated = moments_of(truncated_normal_float, 400000);
  EXPECT_NEAR(truncated.mean, 0, 5 * 0.88 / 632);
  EXPECT_NEAR(std::sqrt(truncated.variance), 0.87962566103423978, 0.004);
  EXPECT_GE(truncated.smallest, -2);
  EXPECT_LE(truncated.largest, 2);
}

TEST(NormalFloat, IsFiniteAtTheEndsAndOddAboutTheMiddle) {
  EXPECT_NEAR(normal_float(0), -6.3379578f, 1e-5f);
  EXPECT_FLOAT_EQ(normal_float(0xffffffffu), -normal_float(0));
  EXPECT_FLOAT_EQ(normal_float(0x12345678u), -normal_float(~0x12345678u));
  EXPECT_NEAR(truncated_normal_float(0), -2.0f, 1e-6f);
  EXPECT_NEAR(truncated_normal_float(0xffffffffu), 2.0f, 1e-6f);
}

// Values computed with Python's statistics.NormalDist; a change would change every seeded run.
TEST(NormalFloat, IsReproducible) {
  constexpr std::uint32_t kWord = 0x6627e8d5;
  EXPECT_FLOAT_EQ(normal_float(kWord), -0.25581597f);
  EXPECT_FLOAT_EQ(truncated_normal_float(kWord), -0.24393680f);
}

}  // namespace
}  // namespace demi
