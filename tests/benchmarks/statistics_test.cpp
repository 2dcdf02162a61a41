#include "benchmarks/compare_precision/statistics.h"

#include <cmath>

#include <gtest/gtest.h>

namespace demi::benchmarks {
namespace {

TEST(Statistics, SummarizesValues) {
  EXPECT_DOUBLE_EQ(summarize({1, 2, 3, 4}).mean, 2.5);
  EXPECT_DOUBLE_EQ(summarize({1, 2, 3, 4}).deviation, std::sqrt(5.0 / 3));
  EXPECT_EQ(summarize({7}).deviation, 0);
  EXPECT_EQ(summarize({}).mean, 0);
}

// From printed tables of Student's t, two-sided 95 %.
TEST(Statistics, KnowsStudentsT) {
  EXPECT_NEAR(student_t_quantile(0.95, 1), 12.706, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.95, 2), 4.303, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.95, 3), 3.182, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.95, 4), 2.776, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.95, 9), 2.262, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.95, 30), 2.042, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.99, 9), 3.250, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.95, 100000), 1.960, 1e-3);
}

TEST(Statistics, PairsDifferences) {
  // Differences 1, 2, 3: mean 2, deviation 1, t(2) = 4.303.
  const PairedDifference difference = paired_difference({10, 20, 30}, {11, 22, 33});
  EXPECT_DOUBLE_EQ(difference.mean, 2);
  EXPECT_NEAR(difference.half_width, 4.3027 / std::sqrt(3.0), 1e-3);
  EXPECT_TRUE(std::isinf(paired_difference({1}, {2}).half_width));
}

}  // namespace
}  // namespace demi::benchmarks
