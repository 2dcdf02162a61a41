// Callbacks as fit calls them, and what fit does when a loss is not finite.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/paths.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

using testing::blobs;
using testing::classifier;
using testing::expect_same_weights;
using testing::message_of;

Model compiled(const std::string& policy = "float32", OptimizerSpec optimizer = "adam") {
  Model model = classifier(policy);
  model.compile({.optimizer = std::move(optimizer),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"}});
  return model;
}

/// Writes down every call.
class Recorder : public Callback {
 public:
  std::vector<std::string> calls;
  void on_train_begin() override { calls.emplace_back("train_begin"); }
  void on_train_end(const Logs&) override { calls.emplace_back("train_end"); }
  void on_epoch_begin(int epoch) override { note("epoch_begin", epoch); }
  void on_epoch_end(int epoch, Logs& logs) override {
    EXPECT_NE(logs.find("val_loss"), nullptr);
    note("epoch_end", epoch);
  }
  void on_train_batch_begin(std::int64_t batch) override { note("batch_begin", batch); }
  void on_train_batch_end(std::int64_t batch, const BatchLogs& logs) override {
    EXPECT_TRUE(std::isfinite(logs.values().at("loss")));
    note("batch_end", batch);
  }
  void on_test_begin() override { calls.emplace_back("test_begin"); }
  void on_test_end(const Logs&) override { calls.emplace_back("test_end"); }

 private:
  void note(const std::string& what, std::int64_t i) {
    calls.push_back(what + " " + std::to_string(i));
  }
};

TEST(FitCallbacks, AreCalledInOrder) {
  Model model = compiled();
  const auto recorder = std::make_shared<Recorder>();
  (void)model.fit(blobs(5), {.batch_size = 3,
                             .epochs = 2,
                             .validation_data = blobs(3),
                             .callbacks = {recorder},
                             .verbose = 0,
                             .initial_epoch = 1});
  EXPECT_EQ(recorder->calls,
            (std::vector<std::string>{"train_begin", "epoch_begin 1", "batch_begin 0",
                                      "batch_end 0", "batch_begin 1", "batch_end 1", "test_begin",
                                      "test_end", "epoch_end 1", "train_end"}));
}

TEST(FitCallbacks, SeeModelAndParameters) {
  class Probe : public Callback {
   public:
    std::string seen;
    void on_train_begin() override {
      const TrainingParameters& p = parameters();
      seen = std::to_string(p.epochs) + " " + std::to_string(p.batch_size) + " " +
             std::to_string(p.samples) + " " + std::to_string(p.steps_per_epoch) + " " +
             std::to_string(model().count_params()) + " " + std::to_string(status().step);
    }
  };
  const auto probe = std::make_shared<Probe>();
  Model model = compiled();
  (void)model.fit(blobs(10), {.batch_size = 4, .callbacks = {probe}, .verbose = 0});
  EXPECT_EQ(probe->seen, "1 4 10 3 99 0");
}

TEST(FitCallbacks, MayStopTrainingInABatch) {
  class Stopper : public Callback {
   public:
    void on_train_batch_end(std::int64_t batch, const BatchLogs&) override {
      if (batch == 2) stop_training();
    }
  };
  Model model = compiled();
  const History history =
      model.fit(blobs(50), {.batch_size = 5, .epochs = 4, .callbacks = {Stopper()}, .verbose = 0});
  EXPECT_EQ(history.status.step, 3);
  EXPECT_EQ(history.epoch.size(), 1u);
}

TEST(FitCallbacks, ExceptionsLeaveFit) {
  Model model = compiled();
  const auto fails = [](std::int64_t batch) {
    if (batch == 3) throw std::runtime_error("enough");
  };
  EXPECT_EQ(message_of<std::runtime_error>([&] {
              (void)model.fit(blobs(100),
                              {.batch_size = 5,
                               .callbacks = {LambdaCallback({.on_train_batch_begin = fails})},
                               .verbose = 0});
            }),
            "enough");
  EXPECT_EQ(model.training_status().step, 3);
  (void)model.fit(blobs(10), {.verbose = 0});
}

TEST(EarlyStopping, StopsAndRestoresTheBestWeights) {
  Model model = compiled("float32", SGD({.learning_rate = 0.1}));
  std::vector<std::vector<Tensor>> weights;
  const double values[] = {5, 3, 4, 3.5, 1};
  const auto stopping = std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.monitor = "value", .patience = 2, .restore_best_weights = true});
  const History history = model.fit(
      blobs(20), {.epochs = 5,
                  .callbacks = {LambdaCallback({.on_epoch_end =
                                                    [&](int epoch, Logs& logs) {
                                                      logs.set("value", values[epoch]);
                                                      weights.push_back(model.get_weights());
                                                    }}),
                                stopping},
                  .verbose = 0});
  EXPECT_EQ(history.epoch.size(), 4u);
  EXPECT_EQ(stopping->stopped_epoch(), 3);
  EXPECT_EQ(stopping->best_epoch(), 1);
  EXPECT_EQ(stopping->best(), 3);
  expect_same_weights(model.get_weights(), weights[1]);
}

TEST(EarlyStopping, KnowsWhichDirectionIsBetter) {
  Model model = compiled();
  const auto stopped_at = [&](const EarlyStoppingOptions& options) {
    const auto stopping = std::make_shared<EarlyStopping>(options);
    const auto set = [](int epoch, Logs& logs) {
      logs.set("rising_accuracy", epoch);
      logs.set("rising", epoch);
    };
    (void)model.fit(blobs(4), {.epochs = 6,
                               .callbacks = {LambdaCallback({.on_epoch_end = set}), stopping},
                               .verbose = 0});
    return stopping->stopped_epoch();
  };
  EXPECT_EQ(stopped_at({.monitor = "rising_accuracy"}), -1);
  EXPECT_EQ(stopped_at({.monitor = "rising"}), 1);
  EXPECT_EQ(stopped_at({.monitor = "rising", .mode = MonitorMode::kMax}), -1);
  EXPECT_EQ(stopped_at({.monitor = "rising_accuracy", .min_delta = 2}), 1);
  EXPECT_EQ(stopped_at({.monitor = "rising", .start_from_epoch = 3}), 4);
  EXPECT_EQ(stopped_at({.monitor = "rising_accuracy", .baseline = 2.5}), 0);
  EXPECT_THROW((void)stopped_at({.monitor = "val_loss"}), std::invalid_argument);
}

TEST(ModelCheckpoint, SavesUnderFilledInNames) {
  const testing::TemporaryFolder folder;
  Model model = compiled();
  const std::string pattern = (folder.path() / "m-{epoch:02d}-{value:.1f}.safetensors").string();
  const double values[] = {3, 4, 2};
  const auto set = [&](int epoch, Logs& logs) { logs.set("value", values[epoch]); };
  const auto best = std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
      .filepath = pattern, .monitor = "value", .save_best_only = true, .save_weights_only = true});
  (void)model.fit(
      blobs(10),
      {.epochs = 3, .callbacks = {LambdaCallback({.on_epoch_end = set}), best}, .verbose = 0});
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "m-01-3.0.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "m-02-4.0.safetensors"));
  EXPECT_EQ(best->last_saved(), folder.path() / "m-03-2.0.safetensors");
  Model again = compiled();
  again.load_weights(best->last_saved().string());
  expect_same_weights(again.get_weights(), model.get_weights());

  const auto fails = [&](const std::string& path) {
    return message_of<std::invalid_argument>([&] {
      (void)model.fit(blobs(4), {.callbacks = {ModelCheckpoint({.filepath = path})}, .verbose = 0});
    });
  };
  EXPECT_NE(fails("m-{nothing}").find("[model_checkpoint] expected a file path"),
            std::string::npos);
}

TEST(LearningRateScheduler, SetsTheRateOfEachEpoch) {
  Model model = compiled("float32", SGD({.learning_rate = 0.5}));
  const History history =
      model.fit(blobs(10), {.epochs = 3,
                            .callbacks = {LearningRateScheduler([](int epoch, double rate) {
                              return epoch == 0 ? rate : rate / 2;
                            })},
                            .verbose = 0});
  EXPECT_EQ(history.history.at("learning_rate"), (std::vector<double>{0.5, 0.25, 0.125}));
  EXPECT_EQ(model.optimizer().learning_rate(), 0.125);
  EXPECT_THROW(
      (void)model.fit(
          blobs(4), {.callbacks = {LearningRateScheduler([](int, double) { return std::nan(""); })},
                     .verbose = 0}),
      std::invalid_argument);
}

// --- numbers out of range ---

TEST(Divergence, NamesTheLayerAndTheDirection) {
  reset_layer_names();
  set_global_policy("float32");
  Sequential model({Input({2}), Dense({.units = 4, .kernel_initializer = "ones", .name = "first"}),
                    Dense({.units = 1, .kernel_initializer = "ones", .name = "second"})});
  model.compile({.optimizer = SGD({.learning_rate = 1e-3}), .loss = "mse"});
  Tensor x = Tensor::full({2, 2}, 1e20, float32);
  const std::string message = message_of<TrainingDiverged>([&] {
    (void)model.fit(x, Tensor({2, 1}, float32), {.verbose = 0});
  });
  EXPECT_NE(message.find("[fit] expected a finite loss. Received: NaN or infinity at step 1."),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("first arises in"), std::string::npos) << message;
  EXPECT_NE(message.find("forward"), std::string::npos) << message;
}

/// A model and data whose loss is infinite in the second of four steps.
Model regressor() {
  reset_layer_names();
  set_global_policy("float32");
  Sequential model({Input({1}), Dense({.units = 1, .kernel_initializer = "ones"})});
  model.compile({.optimizer = SGD({.learning_rate = 1e-3}), .loss = "mse"});
  return model;
}

Dataset outlier() {
  std::vector<float> x(20, 1.0f);
  x[7] = 1e30f;
  return {Tensor::from(x, {20, 1}), Tensor({20, 1}, float32)};
}

TEST(Divergence, TerminateOnNaNStopsQuietly) {
  Model model = regressor();
  ::testing::internal::CaptureStdout();
  const History history = model.fit(outlier(), {.batch_size = 5,
                                                .epochs = 3,
                                                .shuffle = false,
                                                .callbacks = {TerminateOnNaN()},
                                                .verbose = 0});
  EXPECT_NE(::testing::internal::GetCapturedStdout().find("Step 2: the loss is not finite"),
            std::string::npos);
  EXPECT_EQ(history.status.step, 2);
}

TEST(Divergence, MayBeAllowed) {
  Model model = regressor();
  const History history = model.fit(
      outlier(), {.batch_size = 5, .shuffle = false, .verbose = 0, .allow_non_finite = true});
  EXPECT_EQ(history.status.step, 4);
}

}  // namespace
}  // namespace demi
