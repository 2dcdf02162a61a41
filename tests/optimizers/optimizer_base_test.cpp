#include <demi/optimizers/optimizer_base.h>

#include <cmath>

#include <demi/ops/reduction.h>
#include <demi/optimizers/adam.h>
#include <demi/optimizers/adamw.h>
#include <demi/optimizers/loss_scale_optimizer.h>
#include <demi/optimizers/sgd.h>
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/message_of.h"
#include "tests/support/training_step.h"

namespace demi {
namespace {

using testing::expect_identical;
using testing::expect_values;
using testing::linear_loss;
using testing::make_weight;
using testing::message_of;
using testing::random_tensor;
using testing::TrainingStep;
using testing::values_of;

/// One weight of 6 elements, trained with gradients that are fed.
struct Fixture {
  std::shared_ptr<Optimizer> optimizer;
  Variable weight = make_weight("dense/kernel", random_tensor({6}, float32, 1));
  TrainingStep step;

  explicit Fixture(const OptimizerSpec& spec)
      : optimizer(spec.get()), step(optimizer, {weight}, {{{6}, float32}}) {}

  void run(const Tensor& gradient) {
    std::vector<Tensor> feeds;
    feeds.push_back(gradient.clone());
    step.run(feeds);
  }
};

Tensor gradient(std::uint64_t seed) {
  return random_tensor({6}, float32, seed);
}

TEST(Optimizer, EveryStepIsAppliedWithoutLossScaling) {
  Fixture f("sgd");
  f.run(gradient(2));
  EXPECT_TRUE(f.step.applied());
  EXPECT_EQ(f.optimizer->iterations(), 1);
}

TEST(Optimizer, LearningRateCanBeSetBetweenSteps) {
  Fixture f(SGD({.learning_rate = 0.5}));
  EXPECT_EQ(f.optimizer->learning_rate(), 0.5);
  f.optimizer->set_learning_rate(0.25);
  const Tensor before = f.weight.value();
  f.run(gradient(2));
  EXPECT_NEAR(f.weight.value().at(3), before.at(3) - 0.25 * gradient(2).at(3), 1e-6);
  EXPECT_EQ(f.optimizer->learning_rate(), 0.25);
  EXPECT_EQ(Adam().learning_rate(), 1e-3);  // not its nearest float
}

TEST(Optimizer, LearningRateOfAScheduleCannotBeSet) {
  SGD sgd({.learning_rate = CosineDecay{.initial_learning_rate = 0.1, .decay_steps = 10}});
  EXPECT_EQ(message_of<std::invalid_argument>([&] { sgd.set_learning_rate(0.2); }),
            "[sgd] expected a learning rate that is a number, not a schedule, to be set. Received: "
            "0.2.");
  Adam adam;
  EXPECT_EQ(message_of<std::invalid_argument>([&] { adam.set_learning_rate(-1); }),
            "[learning_rate] expected the learning rate to be finite and not negative. Received: "
            "-1.");
}

TEST(Optimizer, FollowsItsSchedule) {
  Fixture f(SGD({.learning_rate =
                     PiecewiseConstantDecay{.boundaries = {0, 1}, .values = {0.5, 0.25, 0.125}}}));
  const Tensor ones = Tensor::full({6}, 1, float32);
  double expected = f.weight.value().at(0);
  for (const double rate : {0.5, 0.25, 0.125, 0.125}) {
    EXPECT_EQ(f.optimizer->learning_rate(), rate);
    f.run(ones);
    expected -= rate;
    EXPECT_NEAR(f.weight.value().at(0), expected, 1e-6);
  }
}

TEST(Optimizer, ClipsBeforeDecayAndDecaysBeforeTheUpdate) {
  // One element with gradient 4 clipped to 1, lr 0.5, decay 0.1: w - w·0.1·0.5 - 0.5·1.
  Fixture f(SGD({.learning_rate = 0.5, .weight_decay = 0.1, .clipvalue = 1}));
  const double before = f.weight.value().at(0);
  f.run(Tensor::full({6}, 4, float32));
  EXPECT_NEAR(f.weight.value().at(0), before - before * 0.05 - 0.5, 1e-6);
}

TEST(Optimizer, LeavesExcludedVariablesWithoutDecay) {
  const auto make = [](const char* name) {
    return make_weight(name, Tensor::full({2}, 1, float32));
  };
  const std::vector<Variable> weights = {make("a/kernel"), make("a/bias"), make("b/kernel")};
  const auto optimizer =
      std::make_shared<AdamW>(AdamWOptions{.learning_rate = 0.5, .weight_decay = 0.5});
  optimizer->exclude_from_weight_decay({weights[2]}, {"bias"});
  TrainingStep step(optimizer, weights, {{{2}, float32}, {{2}, float32}, {{2}, float32}});
  std::vector<Tensor> zeros;
  for (int i = 0; i < 3; ++i) zeros.push_back(Tensor::full({2}, 0, float32));
  step.run(zeros);
  EXPECT_EQ(weights[0].value().at(0), 0.75);
  EXPECT_EQ(weights[1].value().at(0), 1);
  EXPECT_EQ(weights[2].value().at(0), 1);
  EXPECT_THROW(optimizer->exclude_from_weight_decay({}, {"kernel"}), std::invalid_argument);
}

TEST(Optimizer, AveragesOncePerUpdateUnderAccumulation) {
  const SGDOptions options{.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.5};
  SGDOptions accumulating = options;
  accumulating.gradient_accumulation_steps = 4;
  Fixture whole{SGD(options)};
  Fixture micro{SGD(accumulating)};
  Fixture scaled{LossScaleOptimizer(SGD(accumulating))};
  for (int update = 0; update < 3; ++update) {
    const Tensor g = gradient(static_cast<std::uint64_t>(10 + update));
    whole.run(g);
    for (int i = 0; i < 4; ++i) micro.run(g);
    for (int i = 0; i < 4; ++i) scaled.run(g);
  }
  whole.optimizer->finalize_variable_values();
  for (const Fixture* f : {&micro, &scaled}) {
    f->optimizer->finalize_variable_values();
    testing::expect_close(f->weight.value(), testing::to_doubles(whole.weight.value()), 1e-6);
    EXPECT_EQ(f->optimizer->iterations(), 3);
  }
}

TEST(Optimizer, FinalizesToTheAverageOnlyIfThereIsOne) {
  Fixture f(SGD({.use_ema = true}));
  const std::vector<Tensor> before = values_of({f.weight});
  f.optimizer->finalize_variable_values();
  expect_values({f.weight}, before);
  Fixture plain("sgd");
  plain.run(gradient(2));
  const std::vector<Tensor> trained = values_of({plain.weight});
  plain.optimizer->finalize_variable_values();
  expect_values({plain.weight}, trained);
}

TEST(Optimizer, ZeroGradientsMoveNothing) {
  for (const char* name : {"adam", "sgd"}) {
    Fixture f(name);
    const std::vector<Tensor> before = values_of({f.weight});
    for (int i = 0; i < 3; ++i) f.run(Tensor::full({6}, 0, float32));
    expect_values({f.weight}, before, name);
  }
}

TEST(Optimizer, MovesFloat32MastersWhereFloat16WeightsWouldStand) {
  // Updates of 1e-4 on weights of 1: float16 has no number between 1 and 1 - 2^-11.
  const auto weight = make_weight("w", Tensor::full({768}, 1, float32));
  TrainingStep step(std::make_shared<Adam>(AdamOptions{.learning_rate = 1e-4}), {weight},
                    {{{768}, float16}}, linear_loss, {.compute_dtype = float16});
  std::vector<Tensor> x;
  x.push_back(random_tensor({768}, float16, 1, 0.5, 1));
  for (int i = 0; i < 3; ++i) step.run(x);
  for (std::int64_t i = 0; i < 768; ++i) ASSERT_NEAR(weight.value().at(i), 1 - 3e-4, 1e-6);
}

TEST(Optimizer, TrainsFloat64AndFloat16Variables) {
  for (const DType dtype : {float64, float16}) {
    const auto weight = make_weight("w", Tensor::full({5}, 1, dtype));
    const auto optimizer = std::make_shared<Adam>(AdamOptions{.learning_rate = 0.25});
    TrainingStep step(optimizer, {weight}, {{{5}, dtype}}, linear_loss, {.compute_dtype = dtype});
    std::vector<Tensor> x;
    x.push_back(Tensor::full({5}, 0.5, dtype));
    step.run(x);
    EXPECT_EQ(weight.value().dtype(), dtype);
    EXPECT_NEAR(weight.value().at(2), 0.75, dtype == float64 ? 1e-5 : 1e-3);
    EXPECT_EQ(optimizer->variables().back().dtype(), accumulation_dtype(dtype));
  }
}

TEST(Optimizer, LeavesVariablesWithoutGradientAlone) {
  const auto used = make_weight("used", Tensor::full({2}, 1, float32));
  const auto unused = make_weight("unused", Tensor::full({3}, 1, float32));
  const auto optimizer =
      std::make_shared<SGD>(SGDOptions{.learning_rate = 0.5, .weight_decay = 0.1, .use_ema = true});
  TrainingStep step(optimizer, {used, unused}, {{{2}, float32}});
  std::vector<Tensor> x;
  x.push_back(Tensor::full({2}, 1, float32));
  step.run(x);
  EXPECT_NE(used.value().at(0), 1);
  EXPECT_EQ(unused.value().at(0), 1);
  optimizer->finalize_variable_values();
  EXPECT_EQ(unused.value().at(0), 1);
}

TEST(Optimizer, CopiesShareTheirState) {
  SGD first({.learning_rate = 0.5});
  SGD second = first;
  second.set_learning_rate(0.125);
  EXPECT_EQ(first.learning_rate(), 0.125);
}

TEST(Optimizer, RefusesVariablesOfAnotherModel) {
  Adam adam;
  const auto weight = make_weight("a/kernel", Tensor::full({2}, 1, float32));
  const auto other = make_weight("b/kernel", Tensor::full({2}, 1, float32));
  adam.build({weight});
  adam.build({weight});
  EXPECT_EQ(adam.variables().size(), 4u);
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              adam.build({weight, other});
            }),
            "[adam] expected variables it was built for (an optimizer trains one model). Received: "
            "'b/kernel'.");
}

TEST(Optimizer, RefusesALossThatDependsOnNoVariable) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  Adam adam;
  const auto weight = make_weight("w", Tensor::full({2}, 1, float32));
  adam.build({weight});
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              adam.apply({{{}, weight}}, {});
            }),
            "[adam] expected a gradient for at least one variable: the loss depends on none of "
            "them. Received: none.");
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  const auto refused = [](const AdamOptions& options) {
    return message_of<std::invalid_argument>([&] { Adam adam(options); });
  };
  EXPECT_EQ(refused({.clipnorm = 1, .global_clipnorm = 2}),
            "[adam] expected at most one of clipnorm, clipvalue and global_clipnorm. Received: 1, "
            "none and 2.");
  EXPECT_EQ(refused({.beta_1 = 1}), "[adam] expected beta_1 in [0, 1). Received: 1.");
  EXPECT_EQ(refused({.clipvalue = -1}), "[adam] expected clipvalue > 0. Received: -1.");
  EXPECT_EQ(refused({.weight_decay = NAN}), "[adam] expected weight_decay >= 0. Received: nan.");
  EXPECT_EQ(refused({.ema_momentum = 2}), "[adam] expected ema_momentum in [0, 1]. Received: 2.");
  EXPECT_EQ(refused({.gradient_accumulation_steps = 1}),
            "[adam] expected gradient_accumulation_steps >= 2. Received: 1.");
  EXPECT_EQ(message_of<std::invalid_argument>([] { SGD sgd({.momentum = -0.1}); }),
            "[sgd] expected momentum in [0, 1]. Received: -0.1.");
}

// ---- Names and configs
// ---------------------------------------------------------------------------

TEST(OptimizerSpec, FindsOptimizersByName) {
  EXPECT_EQ(OptimizerSpec("adam").get()->class_name(), "Adam");
  EXPECT_EQ(OptimizerSpec("AdamW").get()->class_name(), "AdamW");
  EXPECT_EQ(OptimizerSpec(std::string("sgd")).get()->learning_rate(), 0.01);
  EXPECT_EQ(message_of<std::invalid_argument>([] { OptimizerSpec spec("adma"); }),
            "[optimizer] expected one of adam, adamw, sgd. Received: 'adma'. Did you mean 'adam'?");
  EXPECT_FALSE(OptimizerSpec());
}

TEST(OptimizerConfig, ComesBackAsTheSameOptimizer) {
  const Config configs[] = {
      optimizer_to_config(Adam({.learning_rate = 3e-4, .amsgrad = true, .global_clipnorm = 2})),
      optimizer_to_config(AdamW({.use_ema = true, .ema_overwrite_frequency = 7})),
      optimizer_to_config(
          SGD({.learning_rate = CosineDecay{.initial_learning_rate = 0.1, .decay_steps = 10},
               .momentum = 0.9,
               .nesterov = true,
               .gradient_accumulation_steps = 4}))};
  for (const Config& config : configs) {
    const Config read = Config::parse(config.to_json());
    EXPECT_EQ(optimizer_to_config(*optimizer_from_config(read)).to_json(), config.to_json());
  }
  EXPECT_EQ(configs[0].at("config").at("learning_rate").as_number(), 3e-4);
}

TEST(OptimizerConfig, RefusesUnknownClassesAndOptions) {
  const auto refused = [](const char* json) {
    return message_of<std::invalid_argument>(
        [&] { (void)optimizer_from_config(Config::parse(json)); });
  };
  EXPECT_EQ(
      refused(R"({"class_name": "Adan", "config": {}})"),
      "[optimizer] expected one of the classes Adam, AdamW, SGD, LossScaleOptimizer. Received: "
      "'Adan'. Did you mean 'Adam'?");
  const std::string message = refused(R"({"class_name": "SGD", "config": {"momentun": 0.9}})");
  EXPECT_NE(message.find("Received: 'momentun'. Did you mean 'momentum'?"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace demi
