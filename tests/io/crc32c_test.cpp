// The check values of RFC 3720, appendix B.4.
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/io/crc32c.h"

namespace demi::io {
namespace {

TEST(Crc32c, GivesTheValuesOfTheStandard) {
  EXPECT_EQ(crc32c("", 0), 0u);
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  std::array<unsigned char, 32> bytes{};
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x8A9136AAu);
  bytes.fill(0xFF);
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x62A8AB43u);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
  EXPECT_EQ(crc32c(bytes.data(), 32), 0x46DD794Eu);
}

TEST(Crc32c, ContinuesAtAnyPlace) {
  std::string text(1001, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i);
  const std::uint32_t whole = crc32c(text.data(), text.size());
  for (const std::size_t cut : {0u, 1u, 7u, 8u, 9u, 500u, 1001u}) {
    const std::uint32_t first = crc32c(text.data(), cut);
    EXPECT_EQ(crc32c(text.data() + cut, text.size() - cut, first), whole) << cut;
  }
}

}  // namespace
}  // namespace demi::io
