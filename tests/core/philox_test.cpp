#include "src/core/philox.h"

#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace demi {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors publish with their implementation (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint64_t ones = ~std::uint64_t{0};
  EXPECT_EQ(philox4x32(ones, ones, ones), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(philox_uniform(0), 0.0f);
  EXPECT_EQ(philox_uniform(0xFFFFFFFFu), 1.0f - 0x1p-24f);
}

TEST(PhiloxStream, ReadsTheBlocksWordByWord) {
  PhiloxStream stream(7, 3);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 8; ++i) words.push_back(stream.next32());
  const Words first = philox4x32(7, 0, 3);
  const Words second = philox4x32(7, 1, 3);
  EXPECT_EQ(words, (std::vector<std::uint32_t>{first[0], first[1], first[2], first[3], second[0],
                                               second[1], second[2], second[3]}));
}

TEST(PhiloxStream, BelowCoversItsRangeEvenly) {
  PhiloxStream stream(11);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) ++counts[stream.below(6)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 400);  // 4.4 standard deviations
  EXPECT_EQ(PhiloxStream(11).below(1), 0u);
}

TEST(PhiloxStream, UniformHasTheMomentsOfTheUniformDistribution) {
  PhiloxStream stream(5);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double u = stream.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  EXPECT_NEAR(squares / 100000, 1.0 / 3, 0.005);
}

}  // namespace
}  // namespace demi
