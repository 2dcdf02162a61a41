#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "src/io/safetensors.h"
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

constexpr const char* kFolderVariable = "DEMI_CHECKPOINT_TEST_FOLDER";

/// A model with everything that has state: running statistics, dropout, loss scaling, moments,
/// accumulated gradients, moving averages.
Model stateful_model() {
  set_global_policy("mixed_float16");
  set_random_seed(3);
  Sequential model({Input({2}), Dense({.units = 16, .activation = "relu"}), BatchNormalization(),
                    Dropout({.rate = 0.25}), Dense({.units = 3, .activation = "softmax"})});
  model.compile({.optimizer = LossScaleOptimizer(Adam({.learning_rate = 0.01,
                                                       .global_clipnorm = 1,
                                                       .use_ema = true,
                                                       .gradient_accumulation_steps = 2}),
                                                 {.dynamic_growth_steps = 7}),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"}});
  return model;
}

/// 105 samples; one of the first that are visited overflows float16, so that a step is skipped.
Dataset training_data() {
  const Dataset data = blobs(105);
  Tensor x = data.input().clone();
  x.data<float>()[40] = 3e38f;
  return {std::move(x), data.target().clone()};
}

/// 11 batches of 10 an epoch; 16 steps end in the middle of the second of three.
constexpr std::int64_t kHalf = 16;
FitOptions fit_options(std::int64_t steps) {
  return {.batch_size = 10, .epochs = 3, .seed = 9, .verbose = 0, .max_steps = steps};
}

TEST(Checkpoint, ResumesBitForBitInANewProcess) {
  const testing::TemporaryFolder folder;
  Model whole = stateful_model();
  const History all = whole.fit(training_data(), fit_options(2 * kHalf));
  whole.save_checkpoint((folder.path() / "whole").string());

  Model half = stateful_model();
  const History first = half.fit(training_data(), fit_options(kHalf));
  ASSERT_GE(first.status.skipped_steps, 1) << "the overflow belongs into the first half";
  half.save_checkpoint((folder.path() / "half").string());

  setenv(kFolderVariable, folder.path().c_str(), 1);
  const std::string command = std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_also_run_disabled_tests "
                              "--gtest_filter=Checkpoint.DISABLED_SecondHalf > " +
                              (folder.path() / "log").string() + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;

  const io::SafetensorsFile expected = io::read_safetensors(folder.path() / "whole");
  const io::SafetensorsFile actual = io::read_safetensors(folder.path() / "resumed");
  EXPECT_EQ(actual.metadata, expected.metadata);
  ASSERT_EQ(actual.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    testing::expect_identical(actual.tensors.at(name), tensor, name);
  }
  EXPECT_EQ(all.status.step, 2 * kHalf);
}

// The new process of the test above, not a test of its own.
TEST(Checkpoint, DISABLED_SecondHalf) {
  const char* variable = std::getenv(kFolderVariable);
  if (variable == nullptr) GTEST_SKIP() << "runs as a part of another test";
  const std::filesystem::path folder = variable;
  // Automatic names must not matter: this process has made another model before.
  const Model other = classifier();
  Model model = stateful_model();
  FitOptions options = fit_options(kHalf);
  options.resume = model.load_checkpoint((folder / "half").string());
  options.seed = 12345;  // that of the checkpoint counts
  EXPECT_EQ(*options.resume, (TrainingPosition{.epoch = 1, .batch = 5, .seed = 9}));
  EXPECT_EQ(model.training_status().step, kHalf);
  (void)model.fit(training_data(), options);
  model.save_checkpoint((folder / "resumed").string());
}

TEST(Checkpoint, HoldsScaleAndCounters) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "c").string();
  Model model = stateful_model();
  (void)model.fit(training_data(), fit_options(kHalf));
  model.save_checkpoint(path);
  const TrainingStatus status = model.training_status();

  Model again = stateful_model();
  EXPECT_EQ(again.load_checkpoint(path), (TrainingPosition{.epoch = 1, .batch = 5, .seed = 9}));
  EXPECT_EQ(again.training_status().loss_scale, status.loss_scale);
  EXPECT_EQ(again.training_status().skipped_steps, status.skipped_steps);
  EXPECT_EQ(again.optimizer().iterations(), model.optimizer().iterations());
  expect_same_weights(again.get_weights(), model.get_weights());
}

TEST(Checkpoint, KnowsThePositionAtTheEndOfAnEpoch) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "c-{epoch}").string();
  Model model = classifier();
  model.compile({.loss = "sparse_categorical_crossentropy"});
  (void)model.fit(blobs(20), {.batch_size = 6,
                              .epochs = 2,
                              .seed = 4,
                              .callbacks = {ModelCheckpoint({.filepath = path})},
                              .verbose = 0});
  EXPECT_EQ(model.load_checkpoint((folder.path() / "c-1").string()),
            (TrainingPosition{.epoch = 1, .batch = 0, .seed = 4}));
}

TEST(Checkpoint, ChangesNothingWhenItDoesNotFit) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "c").string();
  Model model = classifier();
  model.compile({.optimizer = "sgd", .loss = "sparse_categorical_crossentropy"});
  (void)model.fit(blobs(20), {.verbose = 0});
  model.save_checkpoint(path);

  const auto error = [&](Model& other, const std::string& file) {
    return message_of<std::invalid_argument>([&] { (void)other.load_checkpoint(file); });
  };
  Model adam = classifier();
  adam.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy"});
  const std::vector<Tensor> before = adam.get_weights();
  EXPECT_NE(error(adam, path)
                .find("expected the state of the optimizer that the model is compiled "
                      "with, Adam. Received: that of SGD."),
            std::string::npos)
      << error(adam, path);
  reset_layer_names();
  Sequential larger({Input({2}), Dense({.units = 17}), Dense({.units = 3})});
  larger.compile({.optimizer = "sgd", .loss = "sparse_categorical_crossentropy"});
  EXPECT_NE(error(larger, path).find("is float32[2, 16] instead of float32[2, 17]."),
            std::string::npos)
      << error(larger, path);
  expect_same_weights(adam.get_weights(), before);

  const std::string weights = (folder.path() / "w").string();
  model.save_weights(weights);
  EXPECT_NE(error(model, weights).find("expected a training checkpoint of version 1"),
            std::string::npos);
  EXPECT_THROW((void)model.load_checkpoint((folder.path() / "none").string()), std::runtime_error);
  EXPECT_THROW(model.save_checkpoint("/nowhere/c"), std::runtime_error);
  Model uncompiled = classifier();
  EXPECT_THROW(uncompiled.save_checkpoint(path), std::invalid_argument);
}

}  // namespace
}  // namespace demi
