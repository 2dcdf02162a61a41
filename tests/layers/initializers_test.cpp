#include <demi/initializers.h>

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

using demi::testing::message_of;

namespace demi {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double smallest = INFINITY;
  double largest = -INFINITY;
};

Moments moments(const Initializer& initializer, const Shape& shape) {
  const Tensor values = initializer(shape, float64, 42);
  Moments result;
  for (const double value : values.data<double>()) {
    result.mean += value;
    result.smallest = std::min(result.smallest, value);
    result.largest = std::max(result.largest, value);
  }
  const auto count = static_cast<double>(values.elements());
  result.mean /= count;
  for (const double value : values.data<double>()) {
    result.deviation += (value - result.mean) * (value - result.mean) / count;
  }
  result.deviation = std::sqrt(result.deviation);
  return result;
}

TEST(Initializer, FillsWithConstants) {
  EXPECT_EQ(Initializer("zeros")({2, 2}, float32, 1).at(3), 0);
  EXPECT_EQ(Initializer("ones")({2, 2}, float16, 1).at(3), 1);
  EXPECT_EQ(initializers::Constant(0.25)({3}, bfloat16, 1).at(2), 0.25);
}

TEST(Initializer, DrawsFromTheNamedDistribution) {
  const Shape shape{200, 500};
  const Moments uniform = moments("random_uniform", shape);
  EXPECT_NEAR(uniform.mean, 0, 5e-4);
  EXPECT_NEAR(uniform.deviation, 0.1 / std::sqrt(12.0), 2e-4);
  EXPECT_GE(uniform.smallest, -0.05);
  EXPECT_LE(uniform.largest, 0.05);

  const Moments normal = moments(initializers::RandomNormal({.mean = 1, .stddev = 2}), shape);
  EXPECT_NEAR(normal.mean, 1, 0.02);
  EXPECT_NEAR(normal.deviation, 2, 0.02);
  EXPECT_GT(normal.largest, 1 + 2 * 3.5);

  const Moments truncated = moments(initializers::TruncatedNormal({.stddev = 1}), shape);
  EXPECT_NEAR(truncated.deviation, 0.8796, 0.005);
  EXPECT_GE(truncated.smallest, -2);
  EXPECT_LE(truncated.largest, 2);
}

TEST(Initializer, ScalesVarianceByFans) {
  // A 3 × 3 kernel of 20 input and 60 output channels.
  const Shape kernel{3, 3, 20, 60};
  const double fan_in = 180;
  const double fan_average = (180 + 540) / 2.0;
  const struct {
    const char* name;
    double variance;
  } cases[] = {{"glorot_uniform", 1 / fan_average}, {"glorot_normal", 1 / fan_average},
               {"he_uniform", 2 / fan_in},          {"he_normal", 2 / fan_in},
               {"lecun_uniform", 1 / fan_in},       {"lecun_normal", 1 / fan_in}};
  for (const auto& [name, variance] : cases) {
    const Moments drawn = moments(name, kernel);
    EXPECT_NEAR(drawn.deviation / std::sqrt(variance), 1, 0.02) << name;
    EXPECT_NEAR(drawn.mean / std::sqrt(variance), 0, 0.03) << name;
  }
  const double limit = std::sqrt(3 / fan_average);
  EXPECT_LE(moments("glorot_uniform", kernel).largest, limit * 1.000001);
  EXPECT_GT(moments("glorot_uniform", kernel).largest, limit * 0.99);
}

TEST(Initializer, DependsOnlyOnSeedAndElement) {
  const Initializer initializer("glorot_uniform");
  const Tensor a = initializer({4, 4}, float32, 1);
  const Tensor b = initializer({4, 4}, float32, 1);
  const Tensor c = initializer({4, 4}, float32, 2);
  int same = 0;
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(a.at(i), b.at(i));
    same += a.at(i) == c.at(i) ? 1 : 0;
  }
  EXPECT_EQ(same, 0);
}

TEST(Initializer, OwnSeedComesBeforeTheLayers) {
  const Initializer seeded = initializers::HeNormal({.seed = 9});
  EXPECT_EQ(seeded({3}, float32, 1).at(2), seeded({3}, float32, 2).at(2));
  EXPECT_NE(seeded({3}, float32, 1).at(2), Initializer("he_normal")({3}, float32, 1).at(2));
}

TEST(Initializer, RoundsTheSameNumbersToEveryDtype) {
  const Initializer initializer("he_uniform");
  const Tensor wide = initializer({5, 5}, float32, 3);
  const Tensor narrow = initializer({5, 5}, float16, 3);
  const Tensor expected = wide.to(float16);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(narrow.at(i), expected.at(i));
}

TEST(Initializer, SurvivesItsConfig) {
  const std::vector<Initializer> all = {
      "zeros",
      initializers::Constant(0.3),
      initializers::RandomUniform({.minval = -1, .maxval = 3, .seed = 5}),
      initializers::RandomNormal({.mean = 2}),
      initializers::TruncatedNormal({.stddev = 0.2, .seed = 1}),
      initializers::GlorotNormal({.seed = 12}),
      "lecun_uniform"};
  for (const Initializer& initializer : all) {
    const Config config = initializer.get_config();
    const Initializer copy = Initializer::from_config(Config::parse(config.to_json()));
    EXPECT_EQ(copy.get_config(), config);
    EXPECT_EQ(copy({7}, float32, 8).at(6), initializer({7}, float32, 8).at(6));
  }
}

TEST(Initializer, SuggestsTheNearestName) {
  const std::string message =
      message_of<std::invalid_argument>([] { Initializer("glorot_unifrom"); });
  EXPECT_TRUE(message.ends_with("Received: 'glorot_unifrom'. Did you mean 'glorot_uniform'?"))
      << message;
}

}  // namespace
}  // namespace demi
