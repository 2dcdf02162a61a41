#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
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
using testing::random_tensor;

/// y = w · x, w fixed: its loss can be computed by hand.
Model scaler(double w) {
  reset_layer_names();
  Sequential model({Input({1}), Dense({.units = 1, .use_bias = false})});
  model.set_weights(tensors(Tensor::full({1, 1}, w, float32)));
  return model;
}

Dataset column(const std::vector<float>& x, const std::vector<float>& y) {
  const auto n = static_cast<std::int64_t>(x.size());
  return {Tensor::from(x, {n, 1}), Tensor::from(y, {n, 1})};
}

TEST(Fit, LearnsAndReturnsHistory) {
  Model model = classifier();
  model.compile({.optimizer = Adam({.learning_rate = 0.01}),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"}});
  const History history = model.fit(
      blobs(200), {.batch_size = 32, .epochs = 5, .validation_data = blobs(50, 1), .verbose = 0});
  EXPECT_EQ(history.epoch, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_GT(history.last("accuracy"), 0.9);
  EXPECT_GT(history.last("val_accuracy"), 0.9);
  EXPECT_LT(history.last("loss"), history.history.at("loss").front());
  EXPECT_EQ(history.status.step, 5 * 7);
  EXPECT_EQ(history.status.skipped_steps, 0);
}

TEST(Fit, AveragesEpochsBySamples) {
  Model model = scaler(1);
  model.compile({.optimizer = SGD({.learning_rate = 0}), .loss = "mse", .metrics = {"mae"}});
  // Squared errors 0, 0, 0, 0, 100: the mean over samples is 20, that of batch means 50.
  const Dataset data = column({1, 2, 3, 4, 5}, {1, 2, 3, 4, 15});
  const History history = model.fit(data, {.batch_size = 4, .shuffle = false, .verbose = 0});
  EXPECT_NEAR(history.last("loss"), 20, 1e-6);
  EXPECT_NEAR(history.last("mae"), 2, 1e-6);
  const Logs logs = model.evaluate(data, {.batch_size = 2, .verbose = 0});
  EXPECT_NEAR(logs.at("loss"), 20, 1e-6);
  EXPECT_NEAR(logs.at("mae"), 2, 1e-6);
}

TEST(Fit, TrainsOnBatches) {
  Model model = scaler(1);
  model.compile({.optimizer = SGD({.learning_rate = 0.5}), .loss = "mse"});
  // Loss (w - 3)², gradient 2 (w - 3) = -4: w becomes 3, and the loss is that before the update.
  const Tensor x = Tensor::from(std::vector<float>{1, 1}, {2, 1});
  const Tensor y = Tensor::from(std::vector<float>{3, 3}, {2, 1});
  EXPECT_NEAR(model.test_on_batch(x, y).at("loss"), 4, 1e-6);
  EXPECT_NEAR(model.train_on_batch(x, y).at("loss"), 4, 1e-6);
  EXPECT_NEAR(model.get_weights()[0].item(), 3, 1e-6);
  EXPECT_NEAR(model.train_on_batch(x, y).at("loss"), 0, 1e-6);
  EXPECT_EQ(model.training_status().step, 2);
}

TEST(Fit, ValidatesOnTheLastSamples) {
  Model model = scaler(1);
  model.compile({.optimizer = SGD({.learning_rate = 0}), .loss = "mse"});
  const Dataset data = column({1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 3, 3});
  const History history =
      model.fit(data, {.batch_size = 3, .validation_split = 0.25, .verbose = 0});
  EXPECT_NEAR(history.last("loss"), 0, 1e-6);
  EXPECT_NEAR(history.last("val_loss"), 4, 1e-6);
}

TEST(Fit, IsBitIdenticalForOneSeedAndAnyNumberOfThreads) {
  const auto weights_after = [](int threads, std::uint64_t seed) {
    Model model = classifier();
    model.compile({.loss = "sparse_categorical_crossentropy", .threads = threads});
    (void)model.fit(blobs(100), {.batch_size = 16, .epochs = 2, .seed = seed, .verbose = 0});
    return model.get_weights();
  };
  const std::vector<Tensor> once = weights_after(1, 5);
  expect_same_weights(weights_after(1, 5), once);
  expect_same_weights(weights_after(2, 5), once);
  expect_same_weights(weights_after(4, 5), once);
  EXPECT_NE(weights_after(1, 6)[0].at(0), once[0].at(0)) << "another order gives other weights";
}

TEST(Fit, StopsAfterMaxSteps) {
  Model model = classifier();
  model.compile({.loss = "sparse_categorical_crossentropy"});
  const History history =
      model.fit(blobs(100), {.batch_size = 10, .epochs = 5, .verbose = 0, .max_steps = 13});
  EXPECT_EQ(history.status.step, 13);
  EXPECT_EQ(history.epoch, (std::vector<int>{0, 1}));
  EXPECT_EQ(
      model.fit(blobs(100), {.batch_size = 10, .epochs = 3, .verbose = 0, .steps_per_epoch = 4})
          .status.step,
      13 + 12);
}

TEST(Fit, RefusesWhatDoesNotFitTheModel) {
  Model model = classifier();
  const auto error = [&](const Dataset& data, const FitOptions& options = {.verbose = 0}) {
    return message_of<std::invalid_argument>([&] { (void)model.fit(data, options); });
  };
  EXPECT_NE(error(blobs(10)).find("[fit] expected a model compiled with a loss"),
            std::string::npos);
  model.compile({.loss = "sparse_categorical_crossentropy"});
  EXPECT_EQ(error(blobs(10).take(0)),
            "[fit] expected at least one sample. Received: an empty data set.");
  EXPECT_NE(error(Dataset(Tensor({4, 3}, float32), Tensor({4}, int32)))
                .find("of shape [None, 2]. Received: [4, 3]."),
            std::string::npos);
  EXPECT_NE(error(Dataset(Tensor({4, 2}, float32)))
                .find("expected 1 output array, one for each output of the model. Received: 0."),
            std::string::npos);
  EXPECT_NE(
      error(Dataset(Tensor({2, 2}, float32), Tensor::from(std::vector<std::int32_t>{0, 3}, {2})))
          .find("expected labels in [0, 3)"),
      std::string::npos);
  EXPECT_NE(error(Dataset(Tensor::full({1, 2}, std::nan(""), float32), Tensor({1}, int32)))
                .find("expected finite values. Received: NaN in input 0, sample 0."),
            std::string::npos);
  EXPECT_NE(
      error(Dataset(Tensor({2, 2}, float32), Tensor({2}, float32))).find("expected integer labels"),
      std::string::npos);
  EXPECT_NE(error(blobs(10), {.batch_size = 0, .verbose = 0}).find("batch size >= 1"),
            std::string::npos);
  EXPECT_NE(error(blobs(10), {.validation_split = 1.5, .verbose = 0}).find("validation_split"),
            std::string::npos);
  EXPECT_NE(error(blobs(1), {.validation_split = 0.5, .verbose = 0}).find("validation_split"),
            std::string::npos);
  EXPECT_EQ(model.training_status().step, 0) << "nothing was trained";
}

TEST(Compile, RefusesOptionsThatDoNotFit) {
  Model model = classifier();
  const auto error = [&](const CompileOptions& options) {
    return message_of<std::invalid_argument>([&] { model.compile(options); });
  };
  EXPECT_NE(error({.loss = {"mse", "mse"}}).find("a loss for each of the model's 1 outputs"),
            std::string::npos);
  EXPECT_NE(error({.loss = "mse", .loss_weights = {1, 2}}).find("a loss weight for each"),
            std::string::npos);
  EXPECT_NE(error({.loss = "mse", .metrics = {"mae", "mae"}}).find("'mae' twice"),
            std::string::npos);
  EXPECT_NE(error({.loss = "mse", .metrics = {MetricSpec("mae").on_output(1)}})
                .find("on an output below 1"),
            std::string::npos);
  EXPECT_NE(error({.loss = "mse", .device = "cudda"}).find("Did you mean 'cuda'?"),
            std::string::npos);
  EXPECT_THROW(model.compile({.loss = "mse", .device = "cuda:99"}), DeviceError);
}

TEST(Predict, TakesAnyNumberOfSamples) {
  Model model = scaler(3);
  for (const std::int64_t count : {0, 1, 5, 6, 7}) {
    const Tensor x = random_tensor({count, 1}, float32, 1);
    const Tensor y = model.predict(x, {.batch_size = 3});
    ASSERT_EQ(y.shape(), (Shape{count, 1}));
    EXPECT_EQ(y.dtype(), float32);
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_FLOAT_EQ(static_cast<float>(y.at(i)), 3 * static_cast<float>(x.at(i)));
    }
  }
}

TEST(Predict, RefusesOutputsThatMixSamples) {
  reset_layer_names();
  const SymbolicTensor x = Input({2});
  Model total(x, ops::sum(x));
  Model row(x, ops::sum(x, {0}, true));
  for (Model model : {total, row}) {
    for (const std::int64_t samples : {3, 0}) {
      EXPECT_NE(message_of<std::invalid_argument>([&] {
                  (void)model.predict(Tensor({samples, 2}, float32));
                }).find("[predict] expected outputs whose first extent is the number of samples"),
                std::string::npos);
    }
  }
}

TEST(Predict, GivesFloat32UnderMixedPolicies) {
  const Tensor x = random_tensor({5, 2}, float32, 3);
  const Tensor expected = classifier("float32").predict(x);
  for (const char* policy : {"mixed_float16", "mixed_bfloat16"}) {
    Model model = classifier(policy);
    model.set_weights(classifier("float32").get_weights());
    const Tensor y = model.predict(x);
    EXPECT_EQ(y.dtype(), float32);
    testing::expect_close(y, testing::to_doubles(expected), 0.05);
    for (std::int64_t row = 0; row < 5; ++row) {
      EXPECT_NEAR(y.at(3 * row) + y.at(3 * row + 1) + y.at(3 * row + 2), 1, 1e-6);
    }
  }
}

TEST(Predict, ConvertsInputsToTheModelsDtype) {
  Model model = scaler(2);
  const Tensor expected = model.predict(Tensor::from(std::vector<float>{1, 2, 255}, {3, 1}));
  testing::expect_identical(model.predict(Tensor::from(std::vector<double>{1, 2, 255}, {3, 1})),
                            expected);
  testing::expect_identical(
      model.predict(Tensor::from(std::vector<std::uint8_t>{1, 2, 255}, {3, 1})), expected);
  testing::expect_identical(
      model.predict(Tensor::from(std::vector<std::int64_t>{1, 2, 255}, {3, 1})), expected);
  const Dataset rescaled =
      Dataset(Tensor::from(std::vector<std::uint8_t>{2, 4, 254}, {3, 1})).rescaled(0.5, 1);
  testing::expect_close(model.predict(rescaled), {4, 6, 256}, 1e-6);
  // A missing last axis of extent 1 is put right.
  testing::expect_identical(model.predict(Tensor::from(std::vector<float>{1, 2, 255}, {3})),
                            expected);
}

TEST(Fit, TrainsModelsWithSeveralInputsAndOutputs) {
  reset_layer_names();
  const SymbolicTensor a = Input({2}, {.name = "a"});
  const SymbolicTensor b = Input({2}, {.name = "b"});
  const SymbolicTensor sum = Add()({a, b});
  Model model({a, b}, {Dense({.units = 1, .name = "left"})(sum),
                       Dense({.units = 1, .activation = "sigmoid", .name = "right"})(sum)});
  model.compile({.optimizer = "sgd",
                 .loss = {"mae", "binary_crossentropy"},
                 .loss_weights = {0.5, 2},
                 .metrics = {"mse", MetricSpec("accuracy").on_output(1)}});
  const Dataset data(tensors(random_tensor({6, 2}, float32, 1), random_tensor({6, 2}, float32, 2)),
                     tensors(random_tensor({6, 1}, float32, 3), Tensor({6}, int32)));
  const Logs logs = model.evaluate(data, {.verbose = 0});
  std::vector<std::string> names;
  for (const auto& [name, value] : logs) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "left_loss", "right_loss", "left_mse",
                                             "right_mse", "right_accuracy"}));
  EXPECT_NEAR(logs.at("loss"), 0.5 * logs.at("left_loss") + 2 * logs.at("right_loss"), 1e-5);
  EXPECT_LT(model.fit(data, {.epochs = 20, .verbose = 0}).last("loss"), logs.at("loss"));
  EXPECT_EQ(model.predict_all(data).size(), 2u);
  EXPECT_THROW((void)model.predict(data), std::invalid_argument);
}

TEST(Fit, BuildsASequentialForItsData) {
  reset_layer_names();
  Sequential model({Dense({.units = 3, .activation = "softmax"})});
  model.compile({.loss = "sparse_categorical_crossentropy"});
  EXPECT_FALSE(model.built());
  (void)model.fit(blobs(10), {.verbose = 0});
  EXPECT_EQ(model.get_weights()[0].shape(), (Shape{2, 3}));
}

}  // namespace
}  // namespace demi
