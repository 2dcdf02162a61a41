// Data sets that fit keeps on the (emulated) GPU: the same weights as from batches that are copied
// one by one, also after the data have changed, and without where there is no room.
#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/compare.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

constexpr std::int64_t kSamples = 22;  ///< 5 batches of 4 and one of 2

Model make_model(bool data_on_device, int filters = 8) {
  set_random_seed(7);
  reset_layer_names();
  set_global_policy("mixed_float16");
  Sequential model({Input({6, 6, 1}), Conv2D({.filters = filters, .kernel_size = {3, 3}}), ReLU(),
                    Flatten(), Dense({.units = 4, .activation = "softmax"})});
  set_global_policy("float32");
  model.compile({.optimizer = SGD({.learning_rate = 0.1}),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"},
                 .device = "cuda-emu",
                 .data_on_device = data_on_device});
  return model;
}

/// Images are stored without their last axis, which the model has.
Dataset make_data(std::uint64_t seed, std::int64_t samples = kSamples) {
  return Dataset(testing::random_tensor({samples, 6, 6}, uint8, seed, 0, 256),
                 testing::random_tensor({samples}, uint8, seed + 1, 0, 4))
      .rescaled(1.0 / 255, -0.5);
}

FitOptions options() {
  return {.batch_size = 4, .epochs = 2, .seed = 3, .verbose = 0};
}

class DeviceData : public testing::EmulatedGpuTest {
 protected:
  static std::uint64_t device_bytes() {
    DemiEmulatorCounters counters;
    DEMI_EMULATOR(demi_emulator_counters)(&counters);
    return counters.device_bytes;
  }
  void TearDown() override {
    if (!IsSkipped()) DEMI_EMULATOR(demi_emulator_reset)();
  }
};

TEST_F(DeviceData, GivesTheWeightsOfBatchesThatAreCopied) {
  Model with = make_model(true);
  Model without = make_model(false);
  const Dataset train = make_data(1);
  FitOptions both = options();
  both.validation_data = make_data(5, 9);
  const History history = with.fit(train, both);
  const History expected = without.fit(train, both);
  EXPECT_EQ(history.history.at("loss"), expected.history.at("loss"));
  EXPECT_EQ(history.history.at("val_loss"), expected.history.at("val_loss"));
  testing::expect_same_weights(with.get_weights(), without.get_weights());
}

TEST_F(DeviceData, SharesTheArraysOfPartsOfADataSet) {
  Model with = make_model(true);
  Model without = make_model(false);
  FitOptions split = options();
  split.validation_split = 0.3;
  const Dataset data = make_data(1).shuffle(9);
  const History history = with.fit(data, split);
  const History expected = without.fit(data, split);
  EXPECT_EQ(history.history.at("val_loss"), expected.history.at("val_loss"));
  testing::expect_same_weights(with.get_weights(), without.get_weights());
}

TEST_F(DeviceData, IsCopiedAnewByEachFit) {
  Model with = make_model(true);
  Model without = make_model(false);
  Tensor x = testing::random_tensor({kSamples, 6, 6, 1}, float32, 1);
  const Tensor y = testing::random_tensor({kSamples}, int32, 2, 0, 4);
  for (Model* model : {&with, &without}) (void)model->fit(x, y, options());
  const std::uint64_t bytes = device_bytes();
  // The same array with other numbers, as a caller may reuse it.
  for (float& value : x.data<float>()) value = 1 - value;
  for (Model* model : {&with, &without}) (void)model->fit(x, y, options());
  testing::expect_same_weights(with.get_weights(), without.get_weights());
  EXPECT_EQ(device_bytes(), bytes) << "the same memory serves again";
  (void)with.fit(make_data(3, 8), options());
  EXPECT_LT(device_bytes(), bytes) << "arrays that are not needed any more are given back";
}

TEST_F(DeviceData, StaysOnTheHostWhereTheDeviceHasNoRoom) {
  Model without = make_model(false);
  const Dataset data(testing::random_tensor({20000, 6, 6, 1}, float32, 1),
                     testing::random_tensor({20000}, int32, 2, 0, 4));
  FitOptions few = options();
  few.batch_size = 64;
  few.epochs = 1;
  few.max_steps = 3;
  (void)without.fit(data, few);
  // Room for the step, and for less than twice the data.
  DEMI_EMULATOR(demi_emulator_set_memory_limit)(device_bytes() + (5 << 20));
  Model with = make_model(true);
  (void)with.fit(data, few);
  testing::expect_same_weights(with.get_weights(), without.get_weights());
}

TEST_F(DeviceData, MakesRoomForAStepThatDoesNotFitBesideIt) {
  constexpr int kFilters = 32;
  const Dataset data(testing::random_tensor({8000, 6, 6, 1}, float32, 1),
                     testing::random_tensor({8000}, int32, 2, 0, 4));
  FitOptions large = options();
  large.batch_size = 2000;
  large.epochs = 1;
  large.max_steps = 1;
  const std::uint64_t before = device_bytes();
  std::uint64_t step_bytes = 0;
  std::vector<Tensor> expected;
  {
    Model without = make_model(false, kFilters);
    (void)without.fit(data, large);
    step_bytes = device_bytes() - before;
    expected = without.get_weights();
  }
  const std::uint64_t data_bytes = data.input().bytes() + data.target().bytes();
  ASSERT_GT(step_bytes / 2, data_bytes) << "the data would not be copied at all";
  DEMI_EMULATOR(demi_emulator_set_memory_limit)(before + step_bytes);
  Model with = make_model(true, kFilters);
  (void)with.fit(data, large);
  EXPECT_EQ(device_bytes() - before, step_bytes) << "the data are still there";
  testing::expect_same_weights(with.get_weights(), expected);
}

}  // namespace
}  // namespace demi
