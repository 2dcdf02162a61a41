// Training with recomputation, accumulation and limits: the same results in less memory.
#include <gmock/gmock.h>
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
using ::testing::HasSubstr;
using testing::message_of;
using testing::random_tensor;

/// Convolutions with normalization and dropout, on images 12 × 12 × 3 of 4 classes.
Model network(const std::string& policy) {
  set_global_policy(policy);
  set_random_seed(5);
  reset_layer_names();
  const SymbolicTensor image = Input({12, 12, 3});
  SymbolicTensor x = Conv2D({.filters = 16, .kernel_size = 3, .padding = "same"})(image);
  x = ReLU()(BatchNormalization()(x));
  SymbolicTensor y = Conv2D({.filters = 16, .kernel_size = 3, .padding = "same"})(x);
  y = ReLU()(BatchNormalization()(y));
  x = Dropout({.rate = 0.25})(Add()({x, y}));
  x = Conv2D({.filters = 16, .kernel_size = 3, .activation = "relu"})(MaxPooling2D()(x));
  x = Dense({.units = 4, .activation = "softmax"})(Flatten()(x));
  set_global_policy("float32");
  return Model(image, x);
}

Dataset images(std::int64_t count) {
  return {random_tensor({count, 12, 12, 3}, float32, 1, -1, 1),
          random_tensor({count}, int32, 2, 0, 4)};
}

struct Result {
  std::vector<Tensor> weights;
  std::vector<double> losses;
  MemoryPlan plan;
};

Result train(const std::string& policy, const CompileOptions& changes) {
  Model model = network(policy);
  CompileOptions options = changes;
  options.optimizer = Adam({.learning_rate = 1e-2});
  options.loss = "sparse_categorical_crossentropy";
  options.device = "cpu";
  options.threads = 2;
  model.compile(options);
  Result result;
  result.plan = model.memory_plan(32);
  const History history = model.fit(
      images(80), {.batch_size = 32, .epochs = 2, .validation_data = {}, .seed = 3, .verbose = 0});
  result.losses = history.history.at("loss");
  result.weights = model.get_weights();
  return result;
}

TEST(RecomputeTraining, NamedLayersGiveTheSameBitsInLessMemory) {
  for (const char* policy : {"float32", "mixed_float16"}) {
    SCOPED_TRACE(policy);
    const Result plain = train(policy, {});
    const Result again =
        train(policy, {.recompute = {"batch_normalization", "batch_normalization_1", "add",
                                     "dropout", "max_pooling2d"}});
    EXPECT_EQ(again.losses, plain.losses);
    expect_same_weights(again.weights, plain.weights);
    EXPECT_LT(again.plan.bytes.activations, plain.plan.bytes.activations);
    EXPECT_EQ(plain.plan.recomputed.calls, 0u);
    EXPECT_GT(again.plan.recomputed.calls, 0u);
    EXPECT_GT(again.plan.recomputed.forward_share, 0);
    EXPECT_LE(again.plan.recomputed.forward_share, 1);
    EXPECT_THAT(to_string(again.plan), HasSubstr("calls run again in the backward half"));
    EXPECT_THAT(format_timeline(again.plan), HasSubstr("dropout: dropout, again"));
  }
}

TEST(RecomputeTraining, AutoFitsTheLimitWithTheSameBits) {
  for (const char* policy : {"float32", "mixed_float16"}) {
    SCOPED_TRACE(policy);
    const Result plain = train(policy, {});
    const auto limit = static_cast<std::size_t>(0.95 * static_cast<double>(plain.plan.bytes.total));
    const Result fitted = train(policy, {.recompute = "auto", .memory_limit = limit});
    EXPECT_LE(fitted.plan.bytes.total, limit);
    EXPECT_EQ(fitted.losses, plain.losses);
    expect_same_weights(fitted.weights, plain.weights);
    EXPECT_GT(fitted.plan.recomputed.calls, 0u);
  }
}

TEST(RecomputeTraining, AutoDoesNothingWhereEverythingFits) {
  EXPECT_EQ(train("float32", {.recompute = "auto"}).plan.recomputed.calls, 0u);
}

TEST(RecomputeTraining, RefusesLayersThatAreNotThere) {
  Model model = network("float32");
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                model.compile({.loss = "sparse_categorical_crossentropy",
                               .device = "cpu",
                               .recompute = {"conv2d", "conv2d_9"}});
              }),
              HasSubstr("Received: 'conv2d_9'"));
}

TEST(Accumulation, OfSmallBatchesIsTheStepOfTheLargeOne) {
  const Dataset data = blobs(64);
  const auto train = [&](std::optional<int> accumulated, std::int64_t batch_size) {
    Model model = classifier();
    model.compile(
        {.optimizer = SGD(
             {.learning_rate = 0.1, .momentum = 0.9, .gradient_accumulation_steps = accumulated}),
         .loss = "sparse_categorical_crossentropy",
         .device = "cpu"});
    (void)model.fit(data, {.batch_size = batch_size, .epochs = 3, .shuffle = false, .verbose = 0});
    return model.get_weights();
  };
  const std::vector<Tensor> large = train(std::nullopt, 32);
  const std::vector<Tensor> small = train(4, 8);
  for (std::size_t i = 0; i < large.size(); ++i) {
    const auto a = large[i].data<float>();
    const auto b = small[i].data<float>();
    for (std::size_t j = 0; j < a.size(); ++j) EXPECT_NEAR(a[j], b[j], 2e-6) << i << ", " << j;
  }
}

TEST(MemoryLimit, EndsAFitBeforeItBegins) {
  Model model = network("float32");
  const CompileOptions options = {
      .optimizer = "adam", .loss = "sparse_categorical_crossentropy", .device = "cpu"};
  model.compile(options);
  const std::size_t limit = model.memory_plan(20).bytes.total;
  CompileOptions limited = options;
  limited.memory_limit = limit;
  model.compile(limited);
  const std::vector<Tensor> before = model.get_weights();
  const std::string message = message_of<OutOfMemory>(
      [&] { (void)model.fit(images(64), {.batch_size = 32, .verbose = 0}); });
  EXPECT_THAT(message, HasSubstr("[fit] expected training to fit into " + std::to_string(limit) +
                                 " bytes, the limit given to compile"));
  EXPECT_THAT(message, HasSubstr("The largest batch that fits is 20"));
  expect_same_weights(model.get_weights(), before);
  EXPECT_EQ(model.training_status().step, 0);
  (void)model.fit(images(20), {.batch_size = 20, .verbose = 0});
  EXPECT_EQ(model.training_status().step, 1);
}

TEST(MemoryLimit, BelowTheWeightsFitsNoBatch) {
  Model model = network("float32");
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu", .memory_limit = 999});
  EXPECT_THAT(message_of<OutOfMemory>([&] { (void)model.fit(images(8), {.verbose = 0}); }),
              HasSubstr("Not even a batch of 1 fits"));
}

TEST(MemoryLimit, OfTheDeviceCountsToo) {
  Model model = network("float32");
  model.compile({.loss = "sparse_categorical_crossentropy", .device = "cpu"});
  memory::configure("cpu", {.limit_bytes = 100'000});
  const std::string message =
      message_of<OutOfMemory>([&] { (void)model.fit(images(32), {.verbose = 0}); });
  memory::configure("cpu", {});
  EXPECT_THAT(message, HasSubstr("100000 bytes, what memory::configure allows"));
}

}  // namespace
}  // namespace demi
