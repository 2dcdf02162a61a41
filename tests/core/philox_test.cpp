#include "src/core/philox.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace demi::internal {
namespace {

constexpr std::uint64_t key(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}

// The vectors published with Random123 for "philox4x32 10".
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({}, 0), (PhiloxBlock{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
  EXPECT_EQ(philox4x32({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, ~std::uint64_t{0}),
            (PhiloxBlock{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
  EXPECT_EQ(
      philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, key(0xa4093822, 0x299f31d0)),
      (PhiloxBlock{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));
}

TEST(Philox, IsAConstantExpression) {
  static_assert(philox4x32({}, 0).words[0] == 0x6627e8d5);
  static_assert(random_word(0, 0, 3) == 0x9b00dbd8);
  static_assert(uniform_float(0x80000000u) == 0.5f);
}

TEST(Philox, StreamsAreCountersUnderTheSeed) {
  const std::uint64_t seed = key(0xa4093822, 0x299f31d0);
  const std::uint64_t block = key(0x243f6a88, 0x85a308d3);
  const std::uint64_t stream = key(0x13198a2e, 0x03707344);
  EXPECT_EQ(random_block(seed, stream, block).words[0], 0xd16cfe09u);
  EXPECT_EQ(random_word(seed, stream, 5), random_block(seed, stream, 1).words[1]);
  EXPECT_NE(random_word(seed, stream, 5), random_word(seed, stream + 1, 5));
  EXPECT_NE(random_word(seed, stream, 5), random_word(seed + 1, stream, 5));
}

TEST(UniformFloat, LiesInTheHalfOpenInterval) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xff), 0.0f);
  EXPECT_EQ(uniform_float(0x100), 0x1p-24f);
  EXPECT_EQ(uniform_float(0xffffffffu), 1.0f - 0x1p-24f);
}

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
    for (const std::uint32_t word : random_block(42, 7, block).words) {
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
TEST(Distributions, HaveTheRightMoments) {
  const Moments uniform = moments_of(uniform_float, 400000);
  EXPECT_NEAR(uniform.mean, 0.5, 5 * 0.2887 / 632);
  EXPECT_NEAR(uniform.variance, 1.0 / 12, 5 * 0.0745 / 632);
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

TEST(Distributions, AreFiniteAtTheEndsAndOddAboutTheMiddle) {
  EXPECT_NEAR(normal_float(0), -6.3379578f, 1e-5f);
  EXPECT_FLOAT_EQ(normal_float(0xffffffffu), -normal_float(0));
  EXPECT_FLOAT_EQ(normal_float(0x12345678u), -normal_float(~0x12345678u));
  EXPECT_NEAR(truncated_normal_float(0), -2.0f, 1e-6f);
  EXPECT_NEAR(truncated_normal_float(0xffffffffu), 2.0f, 1e-6f);
}

// A change of the stream would change every seeded run. The normal values were computed with
// Python's statistics.NormalDist.
TEST(Distributions, AreReproducible) {
  EXPECT_EQ(uniform_float(0x6627e8d5u), 0x6627e8p-24f);
  EXPECT_FLOAT_EQ(normal_float(random_word(0, 0, 0)), -0.25581597f);
  EXPECT_FLOAT_EQ(truncated_normal_float(random_word(0, 0, 0)), -0.24393680f);
}

}  // namespace
}  // namespace demi::internal
