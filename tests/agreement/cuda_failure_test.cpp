// Training on an emulated GPU of which something fails: every failure ends in one clear error, or
// in the same weights where there is another way to them, leaves no object behind, and does not
// disturb the run after it.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/compare.h"
#include "tests/support/emulated_gpu.h"

namespace demi {
namespace {

/// Three steps of a model with a convolution, pooling, normalisation and a dense layer.
std::vector<Tensor> train(bool data_on_device) {
  set_random_seed(7);
  reset_layer_names();
  set_global_policy("mixed_float16");
  Sequential model({Input({6, 6, 3}), Conv2D({.filters = 8, .kernel_size = {3, 3}}),
                    BatchNormalization(), ReLU(), MaxPooling2D(), Flatten(),
                    Dense({.units = 4, .activation = "softmax"})});
  set_global_policy("float32");
  model.compile({.optimizer = SGD({.learning_rate = 0.1}),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"},
                 .device = "cuda-emu",
                 .data_on_device = data_on_device});
  const Tensor x = testing::random_tensor({6, 6, 6, 3}, float32, 1, 0, 1);
  const Tensor y = testing::random_tensor({6}, int32, 2, 0, 4);
  (void)model.fit(x, y, {.batch_size = 2, .verbose = 0});
  return model.get_weights();
}

class EmulatedGpuFailure : public testing::EmulatedGpuTest {
 protected:
  void SetUp() override {
    EmulatedGpuTest::SetUp();
    if (IsSkipped()) return;
    // What the first run keeps, later runs find: engines that were chosen, the device itself.
    expected_ = train(true);
    alive_ = leaks();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    // Objects whose release failed are still there at the exit; expect_nothing_left() has counted.
    unsetenv("DEMI_EMULATOR_FATAL_LEAKS");
    DEMI_EMULATOR(demi_emulator_reset)();
  }

  static std::size_t leaks() { return DEMI_EMULATOR(demi_emulator_leaks)(nullptr); }

  /// The message of the error that training ends with; none if it ends with the right weights.
  std::optional<std::string> failure(bool data_on_device = true) {
    try {
      const std::vector<Tensor> weights = train(data_on_device);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        testing::expect_close(weights[i], testing::to_doubles(expected_[i]), 1e-2, 1.0,
                              "weight " + std::to_string(i));
      }
      return std::nullopt;
    } catch (const DeviceError& error) {
      is_out_of_memory_ = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
      return error.what();
    }
  }

  /// An object whose own release failed stays: there is nothing left to do for it.
  void expect_nothing_left(const std::string& failed, bool may_be_a_release = false) {
    DEMI_EMULATOR(demi_emulator_reset)();
    EXPECT_LE(leaks(), alive_ + (may_be_a_release ? 1 : 0)) << "left by the failure of " << failed;
    alive_ = leaks();
  }

  std::vector<Tensor> expected_;
  std::size_t alive_ = 0;          ///< objects, after the last run
  bool is_out_of_memory_ = false;  ///< the last failure
};

TEST_F(EmulatedGpuFailure, OfAnyAllocationIsOutOfMemory) {
  std::int64_t failures = 0;
  for (;; ++failures) {
    DEMI_EMULATOR(demi_emulator_fail_allocation_after)(failures);
    const std::optional<std::string> message = failure(/*data_on_device=*/false);
    expect_nothing_left("allocation " + std::to_string(failures));
    if (!message || HasFailure()) break;
    EXPECT_TRUE(is_out_of_memory_) << *message;
    EXPECT_NE(message->find("bytes of the device are free"), std::string::npos) << *message;
  }
  EXPECT_GT(failures, 5) << "fewer allocations than a model needs";
}

TEST_F(EmulatedGpuFailure, OfAnAllocationMakesDataLeaveTheDevice) {
  // The first is the context's own; those after it are of the data, then of the steps.
  for (const std::int64_t n : {1, 2, 3, 4, 6, 9, 12}) {
    DEMI_EMULATOR(demi_emulator_fail_allocation_after)(n);
    EXPECT_EQ(failure(/*data_on_device=*/true), std::nullopt) << "allocation " << n;
    expect_nothing_left("allocation " + std::to_string(n));
  }
}

TEST_F(EmulatedGpuFailure, OfAnyCallIsADeviceError) {
  constexpr int kSamples = 60;
  constexpr int kErrorLaunchFailure = 719;
  DemiEmulatorCounters before;
  DemiEmulatorCounters after;
  DEMI_EMULATOR(demi_emulator_counters)(&before);
  ASSERT_EQ(failure(), std::nullopt);
  DEMI_EMULATOR(demi_emulator_counters)(&after);
  const auto calls = static_cast<std::int64_t>(after.calls - before.calls);
  ASSERT_GT(calls, kSamples);
  int failures = 0;
  for (std::int64_t n = 0; n < calls; n += std::max<std::int64_t>(1, calls / kSamples)) {
    DEMI_EMULATOR(demi_emulator_fail_call_after)(n, kErrorLaunchFailure);
    const std::optional<std::string> message = failure();
    expect_nothing_left("call " + std::to_string(n), /*may_be_a_release=*/!message);
    if (!message) continue;
    ++failures;
    EXPECT_EQ(message->rfind("[cu", 0), 0u) << *message;
  }
  EXPECT_GT(failures, kSamples / 2) << "most calls have no other way";
}

TEST_F(EmulatedGpuFailure, OfAKernelIsADeviceError) {
  for (const std::int64_t n : {0, 1, 7, 60}) {
    DEMI_EMULATOR(demi_emulator_fail_operation_after)(n);
    const std::optional<std::string> message = failure();
    ASSERT_TRUE(message.has_value()) << "operation " << n;
    EXPECT_NE(message->find("cudaErrorIllegalAddress"), std::string::npos) << *message;
    // The device is lost with everything on it; resetting it stands for a new process.
    DEMI_EMULATOR(demi_emulator_reset)();
  }
  EXPECT_EQ(failure(), std::nullopt);
}

}  // namespace
}  // namespace demi
