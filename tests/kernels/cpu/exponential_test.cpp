#include "kernels/cpu/exponential.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace demi::cpu {
namespace {

TEST(Exponential, IsWithinOneUlpOfTheExactValue) {
  double worst = 0;
  for (float x = -104.0f; x < 88.72f; x += 0.00137f) {
    const double exact = std::exp(static_cast<double>(x));
    const auto nearest = static_cast<float>(exact);
    const double ulp = std::nextafter(nearest, INFINITY) - static_cast<double>(nearest);
    worst = std::max(worst, std::abs(exponential(x) - exact) / ulp);
  }
  EXPECT_LT(worst, 0.8);
}

TEST(Exponential, HandlesTheEndsOfTheRange) {
  EXPECT_EQ(exponential(0.0f), 1.0f);
  EXPECT_EQ(exponential(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(exponential(-105.0f), 0.0f);
  EXPECT_EQ(exponential(std::numeric_limits<float>::infinity()), INFINITY);
  EXPECT_EQ(exponential(88.73f), INFINITY);
  EXPECT_TRUE(std::isfinite(exponential(88.72f)));
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exponential(-std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace demi::cpu
