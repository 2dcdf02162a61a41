#include <demi/schedules.h>

#include <cmath>

#include <demi/ops/schedule.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using testing::message_of;

TEST(Schedule, IsTheSameOnTheDevice) {
  const LearningRate rate = CosineDecay{
      .initial_learning_rate = 0.01, .decay_steps = 50, .warmup_target = 0.1, .warmup_steps = 10};
  for (const std::int64_t step : {0, 3, 10, 11, 35, 60, 1000}) {
    const Tensor iterations = Tensor::scalar(step);
    const Tensor value =
        std::move(testing::run_kernel("schedule", ops::ScheduleAttributes{rate}, {&iterations})[0]);
    EXPECT_EQ(value.dtype(), float32);
    EXPECT_EQ(value.item(), static_cast<float>(rate.at(step)));
  }
}

TEST(Schedule, EndsWhereItSays) {
  const LearningRate cosine =
      CosineDecay{.initial_learning_rate = 0.2, .decay_steps = 10, .alpha = 0.25};
  EXPECT_NEAR(cosine.at(5), 0.2 * (0.75 * 0.5 + 0.25), 1e-12);
  EXPECT_NEAR(cosine.at(10), 0.05, 1e-12);
  EXPECT_NEAR(cosine.at(1000000), 0.05, 1e-12);
  const LearningRate polynomial = PolynomialDecay{
      .initial_learning_rate = 1, .decay_steps = 4, .end_learning_rate = 0.5, .power = 2};
  EXPECT_EQ(polynomial.at(2), 0.625);
  EXPECT_EQ(polynomial.at(99), 0.5);
}

TEST(Schedule, ConfigsComeBack) {
  const LearningRate rates[] = {
      0.125,
      ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 3, .decay_rate = 0.9},
      InverseTimeDecay{.initial_learning_rate = 0.1, .decay_steps = 3, .staircase = true},
      PiecewiseConstantDecay{.boundaries = {1, 5}, .values = {3, 2, 1}},
      PolynomialDecay{.initial_learning_rate = 0.1, .decay_steps = 3, .cycle = true},
      CosineDecay{
          .initial_learning_rate = 0, .decay_steps = 3, .warmup_target = 1, .warmup_steps = 2},
      CosineDecay{.initial_learning_rate = 1, .decay_steps = 3}};
  for (const LearningRate& rate : rates) {
    const std::string json = rate.get_config().to_json();
    EXPECT_EQ(LearningRate::from_config(Config::parse(json)), rate) << json;
  }
}

TEST(Schedule, RefusesMistakes) {
  const auto refused = [](auto schedule) {
    return message_of<std::invalid_argument>([&] { LearningRate rate(schedule); });
  };
  EXPECT_EQ(refused(-0.1),
            "[learning_rate] expected the learning rate to be finite and not negative. Received: "
            "-0.1.");
  EXPECT_EQ(refused(CosineDecay{.initial_learning_rate = 1, .decay_steps = 0}),
            "[cosine_decay] expected decay_steps > 0. Received: 0.");
  EXPECT_EQ(
      refused(PiecewiseConstantDecay{.boundaries = {1}, .values = {1}}),
      "[piecewise_constant_decay] expected one value more than boundaries. Received: 1 values "
      "and 1 boundaries.");
  EXPECT_EQ(refused(PiecewiseConstantDecay{.boundaries = {5, 1}, .values = {1, 2, 3}}),
            "[piecewise_constant_decay] expected ascending boundaries.");
  const Config unknown = Config::parse(R"({"class_name": "CosinDecay", "config": {}})");
  const std::string message =
      message_of<std::invalid_argument>([&] { (void)LearningRate::from_config(unknown); });
  EXPECT_NE(message.find("Did you mean 'CosineDecay'?"), std::string::npos) << message;
}

}  // namespace
}  // namespace demi
