// What float16 would make of a model's values, and where values that are not finite come from.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "src/training/precision/value_range.h"
#include "tests/support/message_of.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

using internal::range_of;
using internal::ValueRange;
using testing::blobs;
using testing::classifier;
using testing::message_of;

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += sentence + "\n";
  return text;
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

std::shared_ptr<PrecisionMonitor> quiet_monitor(std::int64_t every_steps = 1) {
  return std::make_shared<PrecisionMonitor>(
      PrecisionMonitorOptions{.every_steps = every_steps, .verbose = false});
}

FitOptions options_with(const CallbackHandle& callback) {
  return {.batch_size = 8, .seed = 3, .callbacks = {callback}, .verbose = 0};
}

/// Three dense layers; `kernel` is the constant that fills the middle one's.
Model with_middle_layer(const std::string& policy, double kernel) {
  set_global_policy(policy);
  set_random_seed(7);
  reset_layer_names();
  Sequential model(
      {Input({2}), Dense({.units = 16, .activation = "relu", .name = "first"}),
       Dense({.units = 16, .kernel_initializer = initializers::Constant(kernel), .name = "middle"}),
       Dense({.units = 3, .name = "last"})});
  return model;
}

TEST(ValueRange, CountsWhatFloat16Loses) {
  const float smallest = std::ldexp(1.0f, -25);
  const ValueRange range =
      range_of(Tensor::from(std::vector<float>{0, -0.0f, 1, -1.5f, 65504, -65520, 1e5f, smallest,
                                               smallest / 2, 1e-40f, INFINITY, NAN},
                            {12}));
  EXPECT_EQ(range.zeros, 2);
  EXPECT_EQ(range.infinities, 1);
  EXPECT_EQ(range.nans, 1);
  EXPECT_EQ(range.max_abs, 1e5f);
  EXPECT_EQ(range.all(), 12);
  EXPECT_EQ(range.numbers(), 8);
  EXPECT_EQ(range.exponents[0 - ValueRange::kLowestExponent], 2);
  EXPECT_EQ(range.exponents[15 - ValueRange::kLowestExponent], 2);
  // 1e5, the infinity and the NaN.
  EXPECT_DOUBLE_EQ(range.overflow_share(), 3.0 / 12);
  EXPECT_DOUBLE_EQ(range.flush_share(), 2.0 / 8);
  EXPECT_DOUBLE_EQ(range.flush_share(-1), 3.0 / 8);
  EXPECT_DOUBLE_EQ(range.flush_share(1), 1.0 / 8);
  EXPECT_DOUBLE_EQ(range.overflow_share(-1), 2.0 / 12);
}

TEST(ValueRange, SeesASingleValueAtTheEndOfFloat16) {
  EXPECT_EQ(range_of(Tensor::from(std::vector<float>{65504, 1}, {2})).overflow_share(), 0);
  EXPECT_EQ(range_of(Tensor::from(std::vector<float>{65520, 1}, {2})).overflow_share(), 0.5);
}

TEST(ValueRange, ReadsEveryFloatingDtype) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    EXPECT_EQ(range_of(Tensor::full({3}, -4, dtype)).max_abs, 4) << to_string(dtype);
  }
}

TEST(PrecisionMonitor, NamesTheLayerThatOverflowsForward) {
  for (const std::string policy : {"mixed_float16", "float32"}) {
    Model model = with_middle_layer(policy, 1e5);
    model.compile({.optimizer = "sgd", .loss = "mse", .device = "cpu"});
    const auto monitor = quiet_monitor();
    FitOptions options = options_with(monitor);
    options.max_steps = 1;
    const Tensor x = Tensor::full({8, 2}, 1, float32);
    (void)model.fit(Dataset(x.clone(), Tensor({8, 3}, float32)), options);
    const PrecisionReport report = monitor->report();
    const std::string findings = joined(report.findings);
    expect_contains(findings, "layer 'middle', forward: |activation| up to ");
    expect_contains(findings, "no loss scale heals");
    ASSERT_FALSE(report.keep_float32.empty());
    EXPECT_EQ(report.keep_float32[0], "middle") << policy;
    for (const LayerPrecision& layer : report.layers) {
      if (layer.layer == "first") {
        EXPECT_EQ(layer.activation.overflowing, 0);
      }
      if (layer.layer == "middle") {
        EXPECT_GT(layer.activation.max_abs, 1e5);
        EXPECT_GT(layer.activation.overflowing, 0.3);
      }
    }
  }
}

TEST(PrecisionMonitor, TellsAnOverflowForwardWhenAStepIsSkipped) {
  Model model = with_middle_layer("mixed_float16", 1e5);
  model.compile({.optimizer = "sgd", .loss = "mse", .device = "cpu"});
  const auto monitor = quiet_monitor(1000);
  FitOptions options = options_with(monitor);
  options.epochs = 3;
  (void)model.fit(Dataset(Tensor::full({8, 2}, 1, float32), Tensor({8, 3}, float32)), options);
  ASSERT_EQ(monitor->diagnoses().size(), 1u) << "one for a series of skips";
  expect_contains(monitor->diagnoses()[0], "step 1: skipped, the loss scale is now 16384. ");
  expect_contains(monitor->diagnoses()[0], "first arises in layer 'middle' (");
  expect_contains(monitor->diagnoses()[0], "forward pass). It is an overflow on the way forward");
}

TEST(PrecisionMonitor, DiagnosesASkippedStepOnItsWholeBatch) {
  Model model = with_middle_layer("mixed_float16", 1);
  model.compile({.optimizer = "sgd", .loss = "mse", .device = "cpu"});
  const auto monitor = std::make_shared<PrecisionMonitor>(
      PrecisionMonitorOptions{.every_steps = 1000, .samples = 4, .verbose = false});
  Tensor x = Tensor::full({8, 2}, 1, float32);
  // Beyond the samples that looks are at.
  x.data<float>()[2 * 6] = x.data<float>()[2 * 6 + 1] = 40000;
  (void)model.fit(Dataset(x.clone(), Tensor({8, 3}, float32)), options_with(monitor));
  ASSERT_EQ(monitor->diagnoses().size(), 1u);
  expect_contains(monitor->diagnoses()[0], "first arises in layer 'middle' (");
  expect_contains(monitor->diagnoses()[0], "It is an overflow on the way forward");
}

TEST(PrecisionMonitor, WithoutMemoryOfItsOwnLetsTrainingGoOn) {
  /// Lets nothing more be taken from the first step on.
  class Limit final : public Callback {
   public:
    void on_train_batch_begin(std::int64_t) override {
      memory::configure("cpu", {.limit_bytes = memory::stats("cpu").reserved + 64});
    }
  };
  Model model = classifier("mixed_float16");
  model.compile({.optimizer = "sgd", .loss = "sparse_categorical_crossentropy", .device = "cpu"});
  const auto monitor = quiet_monitor(1);
  FitOptions options = options_with(monitor);
  options.callbacks.insert(options.callbacks.begin(), std::make_shared<Limit>());
  ::testing::internal::CaptureStderr();
  const History history = model.fit(blobs(32), options);
  memory::configure("cpu", {});
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_contains(said, "[precision_monitor] looks no more from step 1 on, training goes on: ");
  EXPECT_EQ(said.find("looks no more"), said.rfind("looks no more")) << "said once";
  EXPECT_EQ(history.status.step, 4);
  EXPECT_TRUE(monitor->report().layers.empty());
}

TEST(PrecisionMonitor, TellsAnOverflowOnTheWayBack) {
  Model model = classifier("mixed_float16");
  model.compile({.optimizer = LossScaleOptimizer(SGD(), {.initial_scale = std::ldexp(1.0, 24)}),
                 .loss = "sparse_categorical_crossentropy",
                 .device = "cpu"});
  const auto monitor = quiet_monitor();
  (void)model.fit(blobs(8), options_with(monitor));
  ASSERT_EQ(monitor->diagnoses().size(), 1u);
  expect_contains(monitor->diagnoses()[0], "backward pass). It is an overflow on the way back");
  expect_contains(joined(monitor->report().findings), "Lower it: ");
  EXPECT_LT(monitor->report().recommended_scale, std::ldexp(1.0, 24));
  EXPECT_TRUE(monitor->report().keep_float32.empty());
}

TEST(PrecisionMonitor, TellsANanThatFloat32HasToo) {
  Model model = classifier("mixed_float16");
  std::vector<Tensor> weights = model.get_weights();
  weights[0].data<float>()[0] = NAN;
  model.set_weights(weights);
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu"});
  const auto monitor = quiet_monitor();
  (void)model.fit(blobs(8), options_with(monitor));
  ASSERT_EQ(monitor->diagnoses().size(), 1u);
  expect_contains(monitor->diagnoses()[0], "Float32 is not finite there either");
  expect_contains(joined(monitor->report().findings), "NaN or infinite in float32 too");
  EXPECT_TRUE(monitor->report().keep_float32.empty());
}

TEST(PrecisionMonitor, AdvisesToRaiseTheScaleForTinyGradients) {
  Model model = classifier("mixed_float16");
  model.compile({.optimizer = LossScaleOptimizer(SGD(), {.initial_scale = 1, .dynamic = false}),
                 .loss = "sparse_categorical_crossentropy",
                 .loss_weights = {1e-7},
                 .device = "cpu"});
  const auto monitor = quiet_monitor();
  (void)model.fit(blobs(8), options_with(monitor));
  const PrecisionReport report = monitor->report();
  expect_contains(joined(report.findings),
                  "of the gradients become 0 in float16 at the loss scale 1. "
                  "Raise it: at ");
  EXPECT_GT(report.recommended_scale, 1e5);
  for (const LayerPrecision& layer : report.layers) {
    if (layer.layer == "dense") {
      EXPECT_GT(layer.gradient.flushed, 0.5);
    }
  }
}

TEST(PrecisionMonitor, FindsNothingWrongWithAHealthyModelAndChangesNothing) {
  Model watched = classifier("mixed_float16");
  Model plain = classifier("mixed_float16");
  const auto monitor = quiet_monitor();
  for (Model* model : {&watched, &plain}) {
    model->compile(
        {.optimizer = "adam", .loss = "sparse_categorical_crossentropy", .device = "cpu"});
  }
  (void)watched.fit(blobs(40), options_with(monitor));
  (void)plain.fit(blobs(40), options_with(LambdaCallback({})));
  testing::expect_same_weights(watched.get_weights(), plain.get_weights());
  const PrecisionReport report = monitor->report();
  EXPECT_EQ(report.looks, 5);
  EXPECT_TRUE(report.keep_float32.empty());
  ASSERT_EQ(report.findings.size(), 1u);
  expect_contains(report.findings[0], "float16 holds what was looked at");
  expect_contains(to_string(report), "dense");
  ASSERT_FALSE(report.layers.empty());
  EXPECT_FALSE(report.layers[0].activation.exponents.empty());
}

TEST(PrecisionMonitor, TheErrorAfterTooManySkipsPrintsTheHistory) {
  Model model = with_middle_layer("mixed_float16", 1e5);
  model.compile({.optimizer = LossScaleOptimizer(SGD(), {.max_consecutive_skips = 3}),
                 .loss = "mse",
                 .device = "cpu"});
  const Dataset data(Tensor::full({8, 2}, 1, float32), Tensor({8, 3}, float32));
  FitOptions options = options_with(quiet_monitor());
  options.epochs = 10;
  const std::string message = message_of<TrainingDiverged>([&] { (void)model.fit(data, options); });
  expect_contains(message, "Received: 3 skipped steps in a row");
  expect_contains(message, "layer 'middle' (");
  expect_contains(message, "forward pass)");
  expect_contains(message,
                  "\nSkipped steps, and the loss scale after each: 1: 16384 2: 8192 3: 4096");
  expect_contains(message, "\nRanges in float32:\n  step 1: loss scale 32768, max |activation| ");
}

TEST(PrecisionMonitor, RefusesNonsense) {
  EXPECT_THROW(PrecisionMonitor({.every_steps = 0}), std::invalid_argument);
  EXPECT_THROW(PrecisionMonitor({.samples = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace demi
