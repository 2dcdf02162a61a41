// Trajectories and schedules against those of Keras 3 (tests/golden/keras_optimizers.py).

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <demi/optimizers/loss_scale_optimizer.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/paths.h"
#include "tests/support/training_step.h"

namespace demi {
namespace {

using testing::expect_close;
using testing::make_weight;
using testing::TrainingStep;

const Config& golden() {
  static const Config config = [] {
    std::ifstream file(testing::golden_path("keras_optimizers.json"));
    std::stringstream text;
    text << file.rdbuf();
    return Config::parse(text.str());
  }();
  return config;
}

std::vector<double> numbers(const Config& list) {
  std::vector<double> values;
  for (const Config& value : list.as_list()) {
    values.push_back(value.is_null() ? std::numeric_limits<double>::infinity() : value.as_number());
  }
  return values;
}

Shape shape_of(const Config& list) {
  std::vector<std::int64_t> dims;
  for (const Config& extent : list.as_list()) dims.push_back(extent.as_integer());
  return Shape(dims);
}

/// One trajectory: the weights and the step that is to follow it.
class Replay {
 public:
  explicit Replay(std::shared_ptr<Optimizer> optimizer, const Config& initial) {
    std::vector<TensorType> types;
    for (const auto& [name, shape] : golden().at("shapes").entries()) {
      names_.push_back(name);
      shapes_.push_back(shape_of(shape));
      types.push_back({shapes_.back(), float32});
      weights_.push_back(
          make_weight(name, Tensor::from(numbers(initial.at(name)), shapes_.back()).to(float32)));
    }
    step_.emplace(std::move(optimizer), weights_, types);
  }

  void run(const Config& gradients) {
    std::vector<Tensor> feeds;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      feeds.push_back(Tensor::from(numbers(gradients.at(names_[i])), shapes_[i]).to(float32));
    }
    step_->run(feeds);
  }

  void expect(const Config& variables, const std::string& what) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      expect_close(weights_[i].value(), numbers(variables.at(names_[i])), 1e-6, 0.5,
                   what + " " + names_[i]);
    }
  }

 private:
  std::vector<std::string> names_;
  std::vector<Shape> shapes_;
  std::vector<Variable> weights_;
  std::optional<TrainingStep> step_;
};

TEST(KerasGolden, OptimizersFollowTheSameTrajectories) {
  for (const Config& one : golden().at("optimizers").as_list()) {
    const std::string what = one.at("class_name").as_string() + one.at("config").to_json();
    const std::shared_ptr<Optimizer> optimizer = optimizer_from_config(one);
    Replay replay(optimizer, one.at("initial"));
    const Config::List& gradients = golden().at("gradients").as_list();
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      replay.run(gradients[step]);
      const Config& expected = one.at("steps").as_list()[step];
      replay.expect(expected.at("variables"), what + " step " + std::to_string(step));
      EXPECT_EQ(optimizer->iterations(), expected.at("iterations").as_integer()) << what;
    }
    optimizer->finalize_variable_values();
    replay.expect(one.at("final"), what + " final");
  }
}

TEST(KerasGolden, LossScalingFollowsTheSameTrajectories) {
  for (const Config& one : golden().at("loss_scale").as_list()) {
    const auto optimizer = std::make_shared<LossScaleOptimizer>(
        optimizer_from_config(one),
        LossScaleOptions{.initial_scale = 1024, .dynamic_growth_steps = 2});
    Replay replay(optimizer, one.at("initial"));
    const Config::List& gradients = golden().at("overflowing_gradients").as_list();
    for (std::size_t step = 0; step < gradients.size(); ++step) {
      replay.run(gradients[step]);
      const Config& expected = one.at("steps").as_list()[step];
      replay.expect(expected.at("variables"), "step " + std::to_string(step));
      EXPECT_EQ(optimizer->iterations(), expected.at("iterations").as_integer());
      EXPECT_EQ(optimizer->scale(), expected.at("scale").as_number());
    }
  }
}

TEST(KerasGolden, SchedulesHaveTheSameValues) {
  for (const Config& one : golden().at("schedules").as_list()) {
    const LearningRate rate = LearningRate::from_config(one);
    const std::vector<double> expected = numbers(one.at("values"));
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(rate.at(static_cast<std::int64_t>(step)), expected[step], 1e-6)
          << one.to_json() << " step " << step;
    }
  }
}

}  // namespace
}  // namespace demi
