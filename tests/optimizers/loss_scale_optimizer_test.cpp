#include <demi/optimizers/loss_scale_optimizer.h>

#include <cmath>
#include <limits>

#include <demi/ops/binary.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>
#include <demi/optimizers/adam.h>
#include <demi/optimizers/sgd.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/message_of.h"
#include "tests/support/training_step.h"

namespace demi {
namespace {

using testing::expect_values;
using testing::linear_loss;
using testing::make_weight;
using testing::message_of;
using testing::random_tensor;
using testing::TrainingStep;
using testing::values_of;

/// An optimizer, two weights and the step that trains them with gradients that are fed.
struct Fixture {
  std::shared_ptr<LossScaleOptimizer> optimizer;
  std::vector<Variable> weights = {make_weight("dense/kernel", random_tensor({4, 3}, float32, 1)),
                                   make_weight("dense/bias", random_tensor({3}, float32, 2))};
  DType dtype;
  TrainingStep step;

  explicit Fixture(const OptimizerSpec& inner, const LossScaleOptions& options = {},
                   DType compute_dtype = float32)
      : optimizer(std::make_shared<LossScaleOptimizer>(inner, options)),
        dtype(compute_dtype),
        step(optimizer, weights, {{{4, 3}, compute_dtype}, {{3}, compute_dtype}}, linear_loss,
             {.compute_dtype = compute_dtype}) {}

  /// Gradients in [-1, 1), one of which is replaced by `bad` unless that is 0.
  double run(std::uint64_t seed, double bad = 0) {
    std::vector<Tensor> gradients;
    gradients.push_back(random_tensor({4, 3}, float32, 2 * seed).to(dtype));
    Tensor bias = random_tensor({3}, float32, 2 * seed + 1);
    if (bad != 0) bias.data<float>()[1] = static_cast<float>(bad);
    gradients.push_back(bias.to(dtype));
    return step.run(gradients);
  }
};

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Everything but the loss scale's own state.
std::vector<Variable> guarded_state(const Fixture& f) {
  std::vector<Variable> all = f.weights;
  const auto inner = f.optimizer->inner()->variables();
  all.insert(all.end(), inner.begin(), inner.end());
  return all;
}

TEST(LossScaleOptimizer, HalvesScaleAndSkipsStepOnOverflow) {
  Fixture f(Adam({.weight_decay = 0.1, .use_ema = true}));
  f.run(1);
  EXPECT_TRUE(f.step.applied());
  const std::vector<Variable> guarded = guarded_state(f);
  for (const double bad : {kInf, -kInf, std::nan("")}) {
    const std::vector<Tensor> before = values_of(guarded);
    const double scale = f.optimizer->scale();
    f.run(2, bad);
    EXPECT_FALSE(f.step.applied());
    expect_values(guarded, before, "after a skipped step");
    EXPECT_EQ(f.optimizer->scale(), scale / 2);
    EXPECT_EQ(f.optimizer->good_steps(), 0);
  }
  EXPECT_EQ(f.optimizer->skipped_steps(), 3);
  EXPECT_EQ(f.optimizer->consecutive_skips(), 3);
  EXPECT_EQ(f.optimizer->iterations(), 1);
  f.run(3);
  EXPECT_TRUE(f.step.applied());
  EXPECT_EQ(f.optimizer->iterations(), 2);
  EXPECT_EQ(f.optimizer->consecutive_skips(), 0);
  EXPECT_EQ(f.optimizer->skipped_steps(), 3);
}

TEST(LossScaleOptimizer, StartsAt32768AndDoublesAfterGrowthSteps) {
  Fixture f("sgd", {.dynamic_growth_steps = 3});
  EXPECT_EQ(f.optimizer->scale(), 32768);
  f.run(1);
  f.run(2);
  EXPECT_EQ(f.optimizer->scale(), 32768);
  EXPECT_EQ(f.optimizer->good_steps(), 2);
  f.run(3);
  EXPECT_EQ(f.optimizer->scale(), 65536);
  EXPECT_EQ(f.optimizer->good_steps(), 0);
}

TEST(LossScaleOptimizer, CountsAppliedUpdatesOnly) {
  Fixture f("adam");
  f.run(1);
  f.run(2, kInf);
  f.run(3);
  EXPECT_EQ(f.optimizer->iterations(), 2);  // of 3 steps seen
  EXPECT_EQ(f.optimizer->skipped_steps(), 1);
}

TEST(LossScaleOptimizer, CountsEverySecondBatchIfThatIsBad) {
  Fixture f("adam");
  for (std::uint64_t i = 0; i < 20; ++i) f.run(i, i % 2 == 0 ? std::nan("") : 0);
  EXPECT_EQ(f.optimizer->skipped_steps(), 10);
  EXPECT_EQ(f.optimizer->iterations(), 10);
  EXPECT_EQ(f.optimizer->consecutive_skips(), 0);
}

TEST(LossScaleOptimizer, SkippedStepsDoNotAdvanceTheSchedule) {
  Fixture f(
      SGD({.learning_rate = ExponentialDecay{.initial_learning_rate = 0.1, .decay_rate = 0.5}}));
  f.run(1, kInf);
  EXPECT_EQ(f.optimizer->learning_rate(), 0.1);
  const double before = f.weights[1].value().at(0);
  f.run(1);
  const double gradient = random_tensor({3}, float32, 3).at(0);
  EXPECT_NEAR(f.weights[1].value().at(0), before - 0.1 * gradient, 1e-6);
  EXPECT_EQ(f.optimizer->learning_rate(), 0.05);
}

TEST(LossScaleOptimizer, SkippedStepsDoNotAdvanceAdamsBiasCorrection) {
  Fixture with_skip(Adam({.learning_rate = 0.01}));
  Fixture without(Adam({.learning_rate = 0.01}));
  with_skip.run(1, kInf);
  with_skip.run(2, kInf);
  for (const std::uint64_t seed : {3, 4}) {
    with_skip.run(seed);
    without.run(seed);
  }
  // The scales differ by a power of two, so nothing is rounded differently.
  expect_values(with_skip.weights, values_of(without.weights));
}

TEST(LossScaleOptimizer, KeepsTheScaleInItsBounds) {
  Fixture f("sgd", {.dynamic_growth_steps = 1});
  const std::vector<Tensor> before = values_of(f.weights);
  for (int i = 0; i < 60; ++i) f.run(1, std::nan(""));
  EXPECT_EQ(f.optimizer->scale(), 0x1p-14);
  EXPECT_EQ(f.optimizer->consecutive_skips(), 60);
  expect_values(f.weights, before);
  for (int i = 0; i < 60; ++i) f.run(1);
  EXPECT_EQ(f.optimizer->scale(), 0x1p24);
}

TEST(LossScaleOptimizer, KeepsAFixedScale) {
  Fixture f("sgd", {.initial_scale = 128, .dynamic_growth_steps = 1, .dynamic = false});
  const std::vector<Tensor> before = values_of(f.weights);
  f.run(1, kInf);
  expect_values(f.weights, before);
  f.run(2);
  f.run(3);
  EXPECT_EQ(f.optimizer->scale(), 128);
  EXPECT_EQ(f.optimizer->skipped_steps(), 1);
}

TEST(LossScaleOptimizer, GoesBelowOneForHugeFloat16Gradients) {
  // d loss / d w is 120000, beyond float16: only scales below 0.55 train.
  const auto weight = make_weight("w", Tensor::full({8}, 1, float32));
  const auto optimizer = std::make_shared<LossScaleOptimizer>(SGD({.learning_rate = 1e-6}));
  TrainingStep step(
      optimizer, {weight}, {{{8}, float16}},
      [](const auto& w, const auto& x) { return ops::sum(ops::multiply(w[0], x[0])) * 4.0; },
      {.compute_dtype = float16});
  std::vector<Tensor> x;
  x.push_back(Tensor::full({8}, 30000, float16));
  for (int i = 0; i < 40; ++i) step.run(x);
  EXPECT_EQ(optimizer->scale(), 0.5);
  EXPECT_EQ(optimizer->skipped_steps(), 16);
  EXPECT_NEAR(weight.value().at(3), 1 - 24 * 0.12, 1e-5);
}

TEST(LossScaleOptimizer, SavesGradientsThatFloat16CannotHold) {
  // d loss / d w is 1e-3 · 1e-5: 1e-8 is 0 in float16.
  const auto train = [](const std::shared_ptr<Optimizer>& optimizer) {
    const auto weight = make_weight("w", Tensor::full({8}, 1, float32));
    TrainingStep step(
        optimizer, {weight}, {{{8}, float16}},
        [](const auto& w, const auto& x) { return ops::sum(ops::multiply(w[0], x[0])) * 1e-5; },
        {.compute_dtype = float16});
    std::vector<Tensor> x;
    x.push_back(Tensor::full({8}, 1e-3, float16));
    step.run(x);
    return 1 - weight.value().at(0);
  };
  const SGDOptions options{.learning_rate = 1e6};
  EXPECT_EQ(train(std::make_shared<SGD>(options)), 0);
  EXPECT_NEAR(train(std::make_shared<LossScaleOptimizer>(SGD(options))), 0.01, 1e-4);
}

TEST(LossScaleOptimizer, ScalesTheLossInFloat32) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  LossScaleOptimizer optimizer("sgd");
  const auto half = graph->tensor(graph->add_input("loss", {{}, float16}));
  const auto wide = graph->tensor(graph->add_input("loss", {{}, float64}));
  EXPECT_EQ(optimizer.scale_loss(half).dtype(), float32);  // 3 · 2^15 is infinite in float16
  EXPECT_EQ(optimizer.scale_loss(wide).dtype(), float64);
  EXPECT_EQ(optimizer.scale_loss(half).shape(), Shape{});
}

TEST(LossScaleOptimizer, ReportsTheUnscaledLoss) {
  Fixture f("sgd");
  double expected = 0;
  for (int i = 0; i < 12; ++i) {
    expected += f.weights[0].value().at(i) * random_tensor({4, 3}, float32, 2).at(i);
  }
  for (int i = 0; i < 3; ++i) {
    expected += f.weights[1].value().at(i) * random_tensor({3}, float32, 3).at(i);
  }
  EXPECT_NEAR(f.run(1), expected, 1e-5);
}

TEST(LossScaleOptimizer, SkipsForANonFiniteLossWithFiniteGradients) {
  const auto weight = make_weight("w", Tensor::full({2}, 1, float32));
  const auto optimizer = std::make_shared<LossScaleOptimizer>("sgd");
  TrainingStep step(optimizer, {weight}, {{{2}, float32}},
                    [](const auto& w, const auto& x) { return ops::sum(ops::add(w[0], x[0])); });
  std::vector<Tensor> x;
  x.push_back(Tensor::full({2}, NAN, float32));
  step.run(x);
  EXPECT_FALSE(step.applied());
  EXPECT_EQ(weight.value().at(0), 1);
}

TEST(LossScaleOptimizer, ClippingSeesUnscaledGradients) {
  std::vector<std::vector<Tensor>> results;
  for (const double scale : {1.0, 32768.0}) {
    Fixture f(Adam({.learning_rate = 0.01, .global_clipnorm = 0.5}), {.initial_scale = scale});
    for (std::uint64_t i = 1; i <= 5; ++i) f.run(i);
    results.push_back(values_of(f.weights));
    EXPECT_EQ(f.optimizer->iterations(), 5);
  }
  testing::expect_identical(results[0][0], results[1][0]);
  testing::expect_identical(results[0][1], results[1][1]);
}

TEST(LossScaleOptimizer, AccumulatesUnscaledGradientsOfFiniteStepsOnly) {
  // With the second of four steps skipped, the mean is of steps 1, 3 and 4, at two different
  // scales.
  Fixture f(SGD({.learning_rate = 0.1, .gradient_accumulation_steps = 3}));
  const std::vector<Tensor> before = values_of(f.weights);
  f.run(1);
  f.run(2, kInf);
  f.run(3);
  expect_values(f.weights, before, "before the update");
  EXPECT_EQ(f.optimizer->iterations(), 0);
  f.run(4);
  EXPECT_EQ(f.optimizer->iterations(), 1);
  for (std::int64_t i = 0; i < 12; ++i) {
    double mean = 0;
    for (const std::uint64_t seed : {1, 3, 4})
      mean += random_tensor({4, 3}, float32, 2 * seed).at(i) / 3;
    EXPECT_NEAR(f.weights[0].value().at(i), before[0].at(i) - 0.1 * mean, 1e-6);
  }
}

TEST(LossScaleOptimizer, AccumulationEqualsOneLargeBatch) {
  // Four steps of 8 samples each, or one of 32, in float16.
  const Tensor inputs = random_tensor({32, 5}, float16, 1);
  const auto mean_loss = [](const auto& w, const auto& x) {
    return ops::mean(ops::square(ops::sum(ops::multiply(w[0], x[0]), {1})));
  };
  const auto train = [&](std::int64_t batch, const SGDOptions& options) {
    const auto weight = make_weight("w", random_tensor({5}, float32, 2));
    TrainingStep step(
        std::make_shared<LossScaleOptimizer>(SGD(options), LossScaleOptions{.initial_scale = 64}),
        {weight}, {{{batch, 5}, float16}}, mean_loss, {.compute_dtype = float16});
    for (std::int64_t first = 0; first < 32; first += batch) {
      std::vector<Tensor> x;
      x.push_back(inputs.slice(first, batch));
      step.run(x);
    }
    return weight.value();
  };
  const Tensor small = train(8, {.learning_rate = 0.1, .gradient_accumulation_steps = 4});
  const Tensor large = train(32, {.learning_rate = 0.1});
  testing::expect_close(small, testing::to_doubles(large), 1e-3);
}

TEST(LossScaleOptimizer, ResumesBitForBit) {
  const auto make = [] {
    return Fixture(Adam({.learning_rate = 0.01, .use_ema = true, .gradient_accumulation_steps = 2}),
                   {.dynamic_growth_steps = 3});
  };
  const auto train = [](Fixture& f, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) f.run(i, i == 2 ? kInf : 0);
  };
  Fixture through = make();
  train(through, 1, 11);

  Fixture first_half = make();
  train(first_half, 1, 6);
  Fixture second_half = make();
  const auto all = [](const Fixture& f) {
    std::vector<Variable> variables = f.weights;
    const auto own = f.optimizer->variables();
    variables.insert(variables.end(), own.begin(), own.end());
    return variables;
  };
  for (std::size_t i = 0; i < all(second_half).size(); ++i) {
    EXPECT_EQ(all(second_half)[i].name(), all(first_half)[i].name());
    all(second_half)[i].assign(all(first_half)[i].value());
  }
  train(second_half, 6, 11);
  expect_values(all(second_half), values_of(all(through)), "resumed");
}

TEST(LossScaleOptimizer, NamesOfVariablesAreUnique) {
  const Fixture f(Adam({.amsgrad = true, .use_ema = true, .gradient_accumulation_steps = 2}));
  std::vector<std::string> names;
  for (const Variable& variable : f.optimizer->variables()) names.push_back(variable.name());
  EXPECT_EQ(std::count(names.begin(), names.end(), "loss_scale_optimizer/scale"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "adam/dense/kernel/momentum"), 1);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  EXPECT_EQ(names.size(), 4u + 3u + 2u * 5u);
}

TEST(LossScaleOptimizer, RefusesGradientsOfALossThatWasNotScaled) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  LossScaleOptimizer optimizer("sgd");
  const auto weight = make_weight("w", Tensor::full({2}, 1, float32));
  optimizer.build({weight});
  const auto gradient = graph->tensor(graph->add_input("g", {{2}, float32}));
  const auto loss = graph->tensor(graph->add_input("loss", {{}, float32}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              optimizer.apply({{gradient, weight}}, loss);
            }),
            "[loss_scale_optimizer] expected gradients of the loss that scale_loss returned. "
            "Received: gradients of a graph in which scale_loss was not called.");
}

TEST(LossScaleOptimizer, RefusesOptionsOfTheWrappedOptimizer) {
  const auto refused = [](const LossScaleOptions& options) {
    return message_of<std::invalid_argument>(
        [&] { LossScaleOptimizer optimizer("adam", options); });
  };
  EXPECT_EQ(
      refused({.clipnorm = 1}),
      "[loss_scale_optimizer] expected clipnorm to be set on the wrapped optimizer. Received: "
      "clipnorm as an option of the LossScaleOptimizer.");
  for (const LossScaleOptions& options :
       {LossScaleOptions{.weight_decay = 0.1}, LossScaleOptions{.clipvalue = 1},
        LossScaleOptions{.global_clipnorm = 1}, LossScaleOptions{.use_ema = true},
        LossScaleOptions{.ema_momentum = 0.9}, LossScaleOptions{.ema_overwrite_frequency = 2},
        LossScaleOptions{.gradient_accumulation_steps = 2}}) {
    EXPECT_NE(refused(options), "");
  }
  EXPECT_EQ(refused({.initial_scale = 0}),
            "[loss_scale_optimizer] expected initial_scale in [2^-14, 2^24]. Received: 0.");
  EXPECT_EQ(refused({.dynamic_growth_steps = 0}),
            "[loss_scale_optimizer] expected dynamic_growth_steps >= 1. Received: 0.");
}

TEST(LossScaleOptimizer, RefusesToWrapItself) {
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { LossScaleOptimizer optimizer{OptimizerSpec(LossScaleOptimizer("adam"))}; }),
            "[loss_scale_optimizer] expected an optimizer that does not scale the loss itself. "
            "Received: LossScaleOptimizer.");
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { LossScaleOptimizer optimizer{OptimizerSpec()}; }),
      "[loss_scale_optimizer] expected an optimizer to wrap. Received: none.");
}

TEST(LossScaleOptimizer, GivesTheSameBitsForAnyThreadCount) {
  std::vector<std::vector<Tensor>> results;
  for (const int threads : {1, 2, 4}) {
    const auto weight = make_weight("w", random_tensor({50000}, float32, 1));
    TrainingStep step(std::make_shared<LossScaleOptimizer>(Adam({.global_clipnorm = 1})), {weight},
                      {{{50000}, float16}}, linear_loss,
                      {.compute_dtype = float16, .threads = threads});
    for (std::uint64_t i = 1; i < 4; ++i) {
      std::vector<Tensor> x;
      x.push_back(random_tensor({50000}, float16, i));
      step.run(x);
    }
    results.push_back(values_of({weight}));
  }
  testing::expect_identical(results[0][0], results[1][0]);
  testing::expect_identical(results[0][0], results[2][0]);
}

}  // namespace
}  // namespace demi
