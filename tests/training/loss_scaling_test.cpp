// Training under loss scaling: when it is chosen, what a skipped step leaves alone, when it gives
// up.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

using testing::blobs;
using testing::classifier;
using testing::expect_same_weights;
using testing::message_of;

Model compiled(const std::string& policy, OptimizerSpec optimizer = "adam") {
  Model model = classifier(policy);
  model.compile({.optimizer = std::move(optimizer), .loss = "sparse_categorical_crossentropy"});
  return model;
}

/// Data of which sample `bad` is so large that it overflows float16.
Dataset with_overflow(std::int64_t count, std::int64_t bad) {
  const Dataset data = blobs(count);
  Tensor x = data.input().clone();
  x.data<float>()[static_cast<std::size_t>(2 * bad)] = 3e38f;
  x.data<float>()[static_cast<std::size_t>(2 * bad + 1)] = 3e38f;
  return {std::move(x), data.target().clone()};
}

TEST(LossScaling, IsChosenForFloat16) {
  EXPECT_EQ(compiled("mixed_float16").optimizer().class_name(), "LossScaleOptimizer");
  EXPECT_EQ(compiled("mixed_bfloat16").optimizer().class_name(), "Adam");
  EXPECT_EQ(compiled("float32").optimizer().class_name(), "Adam");
  set_global_policy("float32");
  reset_layer_names();
  Sequential partly(
      {Input({2}), Dense({.units = 4, .dtype = "mixed_float16"}), Dense({.units = 1})});
  partly.compile({.loss = "mse"});
  EXPECT_EQ(partly.optimizer().class_name(), "LossScaleOptimizer");
}

/// A float32 layer with a float16 one inside the layer inside it.
class Nest : public LayerOf<Nest> {
 public:
  explicit Nest(int depth)
      : LayerOf({.class_name = "TestNest"}),
        depth_(depth),
        dense_({.units = 3, .dtype = "mixed_float16"}) {
    if (depth > 0) inner_ = std::make_shared<Nest>(depth - 1);
  }
  SymbolicTensor call(const SymbolicTensor& x, const CallContext&) override {
    return depth_ > 0 ? (*inner_)(x) : dense_(x);
  }

 private:
  int depth_;
  Dense dense_;
  std::shared_ptr<Nest> inner_;
};

TEST(LossScaling, IsChosenForFloat16InsideOtherLayers) {
  set_global_policy("float32");
  reset_layer_names();
  const SymbolicTensor x = Input({2});
  Model nested(x, Dense({.units = 1})(Nest(2)(x)));
  nested.compile({.loss = "mse"});
  EXPECT_EQ(nested.optimizer().class_name(), "LossScaleOptimizer");
  Model with_ops(x, Dense({.units = 1})(ops::square(ops::cast(x, float16))));
  with_ops.compile({.loss = "mse"});
  EXPECT_EQ(with_ops.optimizer().class_name(), "LossScaleOptimizer");
  const SymbolicTensor halves = Input({2}, {.dtype = float16});
  Model reads_halves(halves, Dense({.units = 1})(halves));
  reads_halves.compile({.loss = "mse"});
  EXPECT_EQ(reads_halves.optimizer().class_name(), "Adam");
}

TEST(LossScaling, SkippedStepsChangeNothingAndAreReported) {
  Model model = compiled("mixed_float16");
  const std::vector<Tensor> before = model.get_weights();
  std::vector<std::int64_t> steps;
  std::vector<double> scales;
  const auto note = [&](std::int64_t step, double scale) {
    steps.push_back(step);
    scales.push_back(scale);
    expect_same_weights(model.get_weights(), before);
  };
  // Batch 0 holds the sample that overflows float16.
  const History history =
      model.fit(with_overflow(20, 2), {.batch_size = 5,
                                       .shuffle = false,
                                       .callbacks = {LambdaCallback({.on_step_skipped = note})},
                                       .verbose = 0});
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(scales, (std::vector<double>{16384}));
  EXPECT_EQ(history.status.step, 4);
  EXPECT_EQ(history.status.skipped_steps, 1);
  EXPECT_EQ(history.status.loss_scale, 16384);
  EXPECT_EQ(model.optimizer().iterations(), 3);
  EXPECT_TRUE(std::isfinite(history.last("loss"))) << "a skipped step does not spoil the mean";
  EXPECT_EQ(history.last("skipped_steps"), 1);
  EXPECT_EQ(history.last("loss_scale"), 16384);
}

TEST(LossScaling, PrintsALineForEachSeriesOfSkips) {
  Model model = compiled("mixed_float16");
  ::testing::internal::CaptureStdout();
  (void)model.fit(with_overflow(20, 2),
                  {.batch_size = 5, .epochs = 2, .shuffle = false, .verbose = 2});
  const std::string text = ::testing::internal::GetCapturedStdout();
  for (const std::string line :
       {"Step 1: skipped, loss or gradients are not finite; the loss scale is now 16384\n",
        "Step 5: skipped, loss or gradients are not finite; the loss scale is now 8192\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(LossScaling, EndsTrainingAfterTooManySkips) {
  Model model = compiled("mixed_float16", LossScaleOptimizer(Adam(), {.max_consecutive_skips = 5}));
  const std::vector<Tensor> before = model.get_weights();
  const Dataset data(Tensor::full({4, 2}, 3e38, float32), Tensor({4}, int32));
  const std::string message =
      message_of<TrainingDiverged>([&] { (void)model.fit(data, {.epochs = 100, .verbose = 0}); });
  EXPECT_NE(message.find("[fit] expected finite gradients in one of 5 steps. Received: 5 skipped "
                         "steps in a row"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("layer 'dense'"), std::string::npos) << message;
  EXPECT_EQ(model.training_status().step, 5);
  expect_same_weights(model.get_weights(), before);
}

TEST(LossScaling, StopsAtTheFloorBeforeItGivesUp) {
  Model model = compiled("mixed_float16");
  const std::vector<Tensor> before = model.get_weights();
  const Tensor x = Tensor::full({4, 2}, 3e38, float32);
  const Tensor y({4}, int32);
  for (int step = 1; step < 50; ++step) (void)model.train_on_batch(x, y);
  EXPECT_EQ(model.training_status().loss_scale, std::ldexp(1.0, -14));
  const std::string message =
      message_of<TrainingDiverged>([&] { (void)model.train_on_batch(x, y); });
  EXPECT_NE(message.find("[train_on_batch] expected finite gradients in one of 50 steps."),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("layer 'dense'"), std::string::npos) << message;
  EXPECT_EQ(model.training_status().step, 50);
  expect_same_weights(model.get_weights(), before);
}

TEST(LossScaling, NamesTheInputThatDoesNotFitFloat16) {
  set_global_policy("mixed_float16");
  reset_layer_names();
  const SymbolicTensor halves = Input({2}, {.name = "halves", .dtype = float16});
  Model model(halves, Dense({.units = 3, .activation = "softmax"})(halves));
  set_global_policy("float32");
  model.compile({.optimizer = LossScaleOptimizer(Adam(), {.max_consecutive_skips = 3}),
                 .loss = "sparse_categorical_crossentropy"});
  const std::vector<Tensor> before = model.get_weights();
  const Dataset data(Tensor::full({4, 2}, 1e5, float32), Tensor({4}, int32));
  const std::string message =
      message_of<TrainingDiverged>([&] { (void)model.fit(data, {.epochs = 4, .verbose = 0}); });
  EXPECT_NE(message.find("An infinity first arises in input 'halves' (cast, forward pass)."),
            std::string::npos)
      << message;
  expect_same_weights(model.get_weights(), before);
}

TEST(LossScaling, CountsTheShareOfSkippedSteps) {
  Model model = compiled("mixed_float16");
  const Dataset bad(Tensor::full({4, 2}, 3e38, float32), Tensor({4}, int32));
  for (int round = 0; round < 10; ++round) {
    (void)model.train_on_batch(bad);
    (void)model.train_on_batch(blobs(4));
  }
  EXPECT_EQ(model.training_status().step, 20);
  EXPECT_EQ(model.training_status().skipped_steps, 10);
  EXPECT_EQ(model.optimizer().iterations(), 10);
}

TEST(LossScaling, SkippedStepsLeaveBatchStatisticsAlone) {
  set_global_policy("mixed_float16");
  reset_layer_names();
  Sequential model({Input({2}), Dense({.units = 8}), BatchNormalization({.momentum = 0.5}),
                    Dense({.units = 3, .activation = "softmax"})});
  set_global_policy("float32");
  model.compile({.loss = "sparse_categorical_crossentropy"});
  (void)model.train_on_batch(blobs(16));
  const std::vector<Tensor> before = model.get_weights();
  (void)model.train_on_batch(with_overflow(16, 3));
  EXPECT_EQ(model.training_status().skipped_steps, 1);
  expect_same_weights(model.get_weights(), before);
  for (const Tensor& weight : before) {
    for (std::int64_t i = 0; i < weight.elements(); ++i) ASSERT_TRUE(std::isfinite(weight.at(i)));
  }
  (void)model.train_on_batch(blobs(16, 1));
  EXPECT_NE(model.get_weights().at(4).at(0), before.at(4).at(0)) << "the moving mean goes on";
}

}  // namespace
}  // namespace demi
