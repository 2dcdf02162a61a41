#include <demi/float16.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "src/core/float16_convert.h"

namespace demi {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

bool is_nan(Float16 h) {
  return (h.bits & 0x7fffu) > 0x7c00u;
}
bool is_nan(BFloat16 b) {
  return (b.bits & 0x7fffu) > 0x7f80u;
}
constexpr std::uint16_t quiet_bit(Float16) {
  return 0x200;
}
constexpr std::uint16_t quiet_bit(BFloat16) {
  return 0x40;
}

/// The value of a float16 straight from its fields; no NaN.
double decode(Float16 h) {
  const int exponent = h.bits >> 10 & 0x1f;
  const int mantissa = h.bits & 0x3ff;
  const double sign = (h.bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0x1f) return sign * kInf;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

double decode(BFloat16 b) {
  const int exponent = b.bits >> 7 & 0xff;
  const int mantissa = b.bits & 0x7f;
  const double sign = (b.bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 0xff) return sign * kInf;
  if (exponent == 0) return sign * std::ldexp(mantissa, -133);
  return sign * std::ldexp(128 + mantissa, exponent - 134);
}

/// Floats that stress every branch: all halves of both kinds, all midpoints between neighbouring
/// ones with the floats on either side, the ends of the ranges, NaNs, and a million random
/// patterns.
const std::vector<float>& probing_floats() {
  static const std::vector<float> values = [] {
    std::vector<std::uint32_t> patterns;
    const auto add_around = [&](std::uint32_t pattern) {
      for (std::uint32_t p : {pattern - 1, pattern, pattern + 1}) {
        patterns.push_back(p & 0x7fffffffu);
        patterns.push_back(p | 0x80000000u);
      }
    };
    for (std::uint32_t h = 0; h < 0x7c00; ++h) {
      const double low = decode(Float16::from_bits(static_cast<std::uint16_t>(h)));
      const double next =
          h == 0x7bff ? 65536.0 : decode(Float16::from_bits(static_cast<std::uint16_t>(h + 1)));
      add_around(bits_of(static_cast<float>(low)));
      add_around(bits_of(static_cast<float>((low + next) / 2)));
    }
    for (std::uint32_t b = 0; b <= 0x7fff; ++b) {
      add_around(b << 16);
      add_around((b << 16) + 0x8000u);
    }
    std::mt19937 random(7);
    for (int i = 0; i < 1000000; ++i) patterns.push_back(random());
    std::vector<float> floats;
    for (const std::uint32_t pattern : patterns) floats.push_back(float_of(pattern));
    return floats;
  }();
  return values;
}

template <class Half>
void expect_all_values_round_trip() {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const Half half = Half::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = static_cast<float>(half);
    if (is_nan(half)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_EQ(Half(wide).bits, half.bits | quiet_bit(half)) << bits;
    } else {
      ASSERT_EQ(wide, decode(half)) << bits;
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << bits;
      ASSERT_EQ(Half(wide).bits, half.bits) << bits;
    }
  }
}

TEST(Float16, AllValuesRoundTrip) {
  expect_all_values_round_trip<Float16>();
}
TEST(BFloat16, AllValuesRoundTrip) {
  expect_all_values_round_trip<BFloat16>();
}

/// At the midpoint of two neighbours the one with an even pattern is taken, beside it the nearer.
/// The value "after" the largest is the power of two that overflow rounds to.
template <class Half>
void expect_ties_to_even(std::uint16_t infinity, double after_largest) {
  for (std::uint16_t bits = 0; bits < infinity; ++bits) {
    const double low = decode(Half::from_bits(bits));
    const double high = bits + 1 == infinity
                            ? after_largest
                            : decode(Half::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const float midpoint = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(midpoint), (low + high) / 2);
    const std::uint16_t even = (bits & 1) == 0 ? bits : static_cast<std::uint16_t>(bits + 1);
    const std::uint16_t up = static_cast<std::uint16_t>(bits + 1);
    ASSERT_EQ(Half(midpoint).bits, even) << bits;
    ASSERT_EQ(Half(std::nextafter(midpoint, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(Half(std::nextafter(midpoint, kInf)).bits, up) << bits;
    ASSERT_EQ(Half(-midpoint).bits, even | 0x8000) << bits;
    ASSERT_EQ(Half(-std::nextafter(midpoint, 0.0f)).bits, bits | 0x8000) << bits;
    ASSERT_EQ(Half(-std::nextafter(midpoint, kInf)).bits, up | 0x8000) << bits;
  }
}

TEST(Float16, MidpointsRoundToEven) {
  expect_ties_to_even<Float16>(0x7c00, 65536.0);
}
TEST(BFloat16, MidpointsRoundToEven) {
  expect_ties_to_even<BFloat16>(0x7f80, 0x1p128);
}

TEST(Float16, KnownNumbers) {
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(static_cast<float>(Float16(65519.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(Float16(65520.0f)), kInf);
  EXPECT_EQ(static_cast<float>(Float16(79998.0f)), kInf);
  EXPECT_EQ(static_cast<float>(Float16(65536.0f)), kInf);
  EXPECT_EQ(Float16(0x1p-14f).bits, 0x0400);  // the smallest normal
  EXPECT_EQ(Float16(0x1p-24f).bits, 0x0001);  // the smallest subnormal
  EXPECT_EQ(Float16(2.98e-8f).bits, 0x0000);
  EXPECT_EQ(Float16(1e-8f).bits, 0x0000);
  EXPECT_EQ(Float16(-1e-12f).bits, 0x8000);
  EXPECT_EQ(static_cast<float>(Float16(1e-7f)), 0x1p-23f);
  EXPECT_EQ(static_cast<float>(Float16(1.0f - 1e-7f)), 1.0f);
  EXPECT_EQ(static_cast<float>(Float16::from_bits(0x3bff)), 0.99951171875f);
  EXPECT_EQ(static_cast<float>(Float16(1.0f + 0x1p-10f)), 1.0f + 0x1p-10f);
}

TEST(Float16, IntegersAreExactTo2048) {
  for (int i = 0; i <= 2048; ++i) {
    ASSERT_EQ(static_cast<float>(Float16(static_cast<float>(i))), static_cast<float>(i));
  }
  EXPECT_EQ(static_cast<float>(Float16(2049.0f)), 2048.0f);
  EXPECT_EQ(static_cast<float>(Float16(4097.0f)), 4096.0f);
  EXPECT_EQ(static_cast<float>(Float16(19999.0f)), 20000.0f);
}

TEST(Float16, SmallUpdatesOfOneAreLost) {
  const auto updated = [](float by) { return static_cast<float>(Float16(1.0f + by)); };
  EXPECT_EQ(updated(-2.4e-4f), 1.0f);
  EXPECT_EQ(updated(-2.5e-4f), 1.0f - 0x1p-11f);
  EXPECT_EQ(updated(4.8e-4f), 1.0f);
}

TEST(Float16, RunningSumOfOnesStallsAt2048) {
  Float16 sum(0.0f);
  for (int i = 0; i < 4096; ++i) sum = Float16(static_cast<float>(sum) + 1.0f);
  EXPECT_EQ(static_cast<float>(sum), 2048.0f);
}

TEST(BFloat16, KnownNumbers) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(static_cast<float>(BFloat16(256.0f)), 256.0f);
  EXPECT_EQ(static_cast<float>(BFloat16(257.0f)), 256.0f);
  EXPECT_EQ(static_cast<float>(BFloat16(std::numeric_limits<float>::max())), kInf);
  EXPECT_EQ(static_cast<float>(BFloat16(3e38f)), 0x1.c4p127f);
  EXPECT_EQ(BFloat16(float_of(1)).bits, 0x0000);
  EXPECT_EQ(BFloat16(float_of(0x00010000u)).bits, 0x0001);  // a float subnormal it can hold
}

TEST(Float16, NanStaysNanWithItsSignAndPayload) {
  EXPECT_EQ(Float16(float_of(0x7fc00000u)).bits, 0x7e00);
  EXPECT_EQ(Float16(float_of(0xffc02000u)).bits, 0xfe01);
  EXPECT_EQ(internal::float16_from_float_software(float_of(0x7f800001u)), 0x7e00);
  EXPECT_EQ(BFloat16(float_of(0xffc10000u)).bits, 0xffc1);
  EXPECT_EQ(BFloat16(float_of(0x7f800001u)).bits, 0x7fc0);
}

TEST(Float16, ComparesPatterns) {
  EXPECT_EQ(Float16(kInf), Float16::from_bits(0x7c00));
  EXPECT_EQ(Float16::from_bits(0x7e00), Float16::from_bits(0x7e00));
  EXPECT_NE(Float16(0.0f), Float16(-0.0f));
  EXPECT_EQ(Float16(), Float16(0.0f));
}

#if defined(__F16C__)
TEST(Float16Hardware, WidensAsSoftwareDoes) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    ASSERT_EQ(bits_of(internal::float16_to_float_f16c(half)),
              bits_of(internal::float16_to_float_software(half)))
        << bits;
  }
}

TEST(Float16Hardware, NarrowsAsSoftwareDoes) {
  for (const float value : probing_floats()) {
    ASSERT_EQ(internal::float16_from_float_f16c(value),
              internal::float16_from_float_software(value))
        << std::hex << bits_of(value);
  }
}
#endif

template <class Half>
void expect_bulk_equals_single() {
  const std::vector<float>& values = probing_floats();
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<Half> halves(values.size());
  internal::convert(values.data(), halves.data(), count);
  std::vector<float> widened(values.size());
  internal::convert(halves.data(), widened.data(), count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(halves[i], internal::from_float<Half>(values[i])) << std::hex << bits_of(values[i]);
    ASSERT_EQ(bits_of(widened[i]), bits_of(internal::to_float(halves[i]))) << halves[i].bits;
  }
}

TEST(Convert, Float16ArraysEqualSingleConversions) {
  expect_bulk_equals_single<Float16>();
}
TEST(Convert, BFloat16ArraysEqualSingleConversions) {
  expect_bulk_equals_single<BFloat16>();
}

TEST(Convert, TouchesNothingBeyondTheCount) {
  for (std::int64_t count = 0; count <= 19; ++count) {
    const std::vector<float> ones(20, 1.0f);
    std::vector<BFloat16> halves(20, BFloat16(7.0f));
    internal::convert(ones.data(), halves.data(), count);
    std::vector<float> back(20, 7.0f);
    internal::convert(halves.data(), back.data(), count);
    for (std::int64_t i = 0; i < 20; ++i) {
      const float expected = i < count ? 1.0f : 7.0f;
      EXPECT_EQ(static_cast<float>(halves[static_cast<std::size_t>(i)]), expected);
      EXPECT_EQ(back[static_cast<std::size_t>(i)], expected);
    }
  }
}

}  // namespace
}  // namespace demi
