// Whole training runs on a GPU: they must agree with the CPU, and, as the emulated one counts,
// replay one graph per step without making the host wait.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <demi/demi.h>

#include "models/mnist_cnn.h"
#include "models/resnet20.h"
#include "tests/support/compare.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/environment.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using Builder = Model (*)(const Shape&, int);

struct RunCase {
  Builder build = nullptr;
  Shape image = {28, 28, 1};
  std::string policy = "float32";
  std::int64_t batch_size = 16;
  std::int64_t samples = 40;  ///< 40 = 2 · 16 + 8: the last batch is a partial one
  int epochs = 1;
  double initial_scale = 32768;
};

struct RunResult {
  std::vector<Tensor> weights;
  History history;
  Logs evaluated;
};

/// SGD, because Adam turns rounding errors of tiny gradients into whole steps.
RunResult train(const RunCase& run, const std::string& device) {
  constexpr std::int64_t kClasses = 10;
  set_random_seed(7);
  set_global_policy(run.policy);
  Model model = run.build(run.image, kClasses);
  set_global_policy("float32");
  const Tensor x = testing::random_tensor(run.image.with_front(run.samples), float32, 1, 0, 1);
  const Tensor y = testing::random_tensor({run.samples}, int32, 2, 0, kClasses);
  const SGD sgd({.learning_rate = 0.01, .momentum = 0.9});
  const OptimizerSpec optimizer =
      run.policy == "mixed_float16"
          ? OptimizerSpec(LossScaleOptimizer(sgd, {.initial_scale = run.initial_scale}))
          : OptimizerSpec(sgd);
  model.compile({.optimizer = optimizer,
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"},
                 .device = device,
                 .threads = 2});
  RunResult result;
  result.history = model.fit(
      x, y, {.batch_size = run.batch_size, .epochs = run.epochs, .seed = 3, .verbose = 0});
  result.evaluated = model.evaluate(x, y, {.batch_size = run.batch_size, .verbose = 0});
  result.weights = model.get_weights();
  return result;
}

class EmulatedGpu : public testing::EmulatedGpuTest {};

/// On the GPU that DEMI_TEST_DEVICE names, else on the emulated one.
class GpuTraining : public testing::EmulatedGpuTest {
 protected:
  void SetUp() override {
    if (!is_real()) EmulatedGpuTest::SetUp();
  }

  static bool is_real() { return testing::test_device().rfind("cuda:", 0) == 0; }

  static void expect_agreement(const RunCase& run, double tolerance) {
    SCOPED_TRACE(run.policy);
    const RunResult cpu = train(run, "cpu");
    const RunResult gpu = train(run, is_real() ? testing::test_device() : "cuda-emu");
    EXPECT_NEAR(gpu.history.last("loss"), cpu.history.last("loss"), tolerance);
    EXPECT_NEAR(gpu.evaluated.at("loss"), cpu.evaluated.at("loss"), tolerance);
    EXPECT_EQ(gpu.history.status.step, cpu.history.status.step);
    EXPECT_EQ(gpu.history.status.skipped_steps, cpu.history.status.skipped_steps);
    EXPECT_EQ(gpu.history.status.loss_scale, cpu.history.status.loss_scale);
    ASSERT_EQ(gpu.weights.size(), cpu.weights.size());
    for (std::size_t i = 0; i < cpu.weights.size(); ++i) {
      testing::expect_close(gpu.weights[i], testing::to_doubles(cpu.weights[i]), tolerance, 1.0,
                            "weight " + std::to_string(i));
    }
  }
};

TEST_F(GpuTraining, AgreesWithTheCpuForMnistCnn) {
  expect_agreement({.build = &models::mnist_cnn, .epochs = 7}, 1e-4);
  expect_agreement({.build = &models::mnist_cnn, .policy = "mixed_float16", .epochs = 7}, 1e-2);
}

TEST_F(GpuTraining, AgreesWithTheCpuForResnet20) {
  const RunCase run = {
      .build = &models::resnet20, .image = {16, 16, 3}, .batch_size = 8, .samples = 16};
  expect_agreement(run, 1e-3);
  RunCase mixed = run;
  mixed.policy = "mixed_float16";
  expect_agreement(mixed, 3e-2);
}

TEST_F(GpuTraining, AgreesWithTheCpuByCallsOfCudnn) {
  const testing::Environment preference("DEMI_PREFER", "cudnn");
  for (const char* policy : {"float32", "mixed_float16"}) {
    // The loss of a residual network after two steps is large, about 16.
    const double tolerance = std::string(policy) == "float32" ? 1e-3 : 1e-1;
    expect_agreement({.build = &models::mnist_cnn, .policy = policy}, tolerance / 10);
    expect_agreement({.build = &models::resnet20,
                      .image = {16, 16, 3},
                      .policy = policy,
                      .batch_size = 8,
                      .samples = 16},
                     tolerance);
  }
}

/// How often each of cuDNN's calls stands in a planned step.
std::map<std::string, int> planned_calls(Builder build, const Shape& image) {
  const Dataset data =
      Dataset(Tensor(image.with_front(1), uint8), Tensor({1}, uint8)).rescaled(1 / 255.0);
  std::map<std::string, int> counts;
  const PlannedStep step = plan_training_step(
      build(image, 10), data, {.optimizer = Adam(), .loss = "sparse_categorical_crossentropy"},
      {.batch_size = 8, .device_profile = "h200"});
  for (const PlannedCall& call : step.calls) {
    const std::size_t begin = call.kernel.find(": cudnn");
    if (begin == std::string::npos) continue;
    ++counts[call.kernel.substr(begin + 2, call.kernel.find(',') - begin - 2)];
  }
  return counts;
}

TEST_F(EmulatedGpu, PlansTheCallsOfCudnnThatArePreferred) {
  EXPECT_TRUE(planned_calls(&models::mnist_cnn, {28, 28, 1}).empty());
  const testing::Environment preference("DEMI_PREFER", "cudnn");
  EXPECT_EQ(planned_calls(&models::mnist_cnn, {28, 28, 1}),
            (std::map<std::string, int>{{"cudnnPoolingForward", 2}, {"cudnnPoolingBackward", 2}}));
  EXPECT_EQ(planned_calls(&models::resnet20, {28, 28, 1}),
            (std::map<std::string, int>{{"cudnnBatchNormalizationForwardTraining", 21},
                                        {"cudnnBatchNormalizationBackward", 21}}));
}

TEST_F(GpuTraining, SkipsTheStepsThatOverflowLikeTheCpu) {
  RunCase run = {.build = &models::mnist_cnn, .policy = "mixed_float16", .epochs = 2};
  run.initial_scale = 16777216;
  EXPECT_GT(train(run, "cpu").history.status.skipped_steps, 0) << "nothing overflowed";
  expect_agreement(run, 1e-2);
}

/// Reads the emulator's counters when a batch has been queued.
class CountingCallback final : public Callback {
 public:
  using Counters = void (*)(DemiEmulatorCounters*);
  explicit CountingCallback(Counters read) : read_(read) {}
  void on_train_batch_end(std::int64_t, const BatchLogs&) override { read_(&after.emplace_back()); }
  std::vector<DemiEmulatorCounters> after;

 private:
  Counters read_;
};

/// The emulator's counters after each of 14 steps of training mnist_cnn in batches of 4. Both sets
/// of input buffers have warmed up and been captured after six; the device is looked at after the
/// last one.
std::vector<DemiEmulatorCounters> count_steps(const CompileOptions& options,
                                              CountingCallback::Counters read) {
  const auto counting = std::make_shared<CountingCallback>(read);
  set_random_seed(7);
  Model model = models::mnist_cnn({28, 28, 1}, 10);
  model.compile(options);
  const Tensor x = testing::random_tensor({56, 28, 28, 1}, float32, 1, 0, 1);
  const Tensor y = testing::random_tensor({56}, int32, 2, 0, 10);
  model.fit(x, y, {.batch_size = 4, .epochs = 1, .callbacks = {counting}, .verbose = 0});
  EXPECT_EQ(counting->after.size(), 14u);
  return counting->after;
}

TEST_F(EmulatedGpu, ReplaysOneGraphPerStepWithoutWaiting) {
  const std::vector<DemiEmulatorCounters> counters = count_steps(
      {.optimizer = Adam(), .loss = "sparse_categorical_crossentropy", .device = "cuda-emu"},
      DEMI_EMULATOR(demi_emulator_counters));
  for (std::size_t i = 7; i + 1 < counters.size(); ++i) {
    const DemiEmulatorCounters& before = counters[i - 1];
    const DemiEmulatorCounters& after = counters[i];
    EXPECT_EQ(after.graph_launches - before.graph_launches, 1u) << "step " << i;
    EXPECT_EQ(after.kernel_launches - before.kernel_launches, 0u) << "step " << i;
    EXPECT_EQ(after.library_launches - before.library_launches, 0u) << "step " << i;
    EXPECT_EQ(after.device_allocations - before.device_allocations, 0u) << "step " << i;
  }
  // The thread that loads batches waits for its two pinned buffers; nothing else waits.
  const std::size_t last = counters.size() - 2;
  EXPECT_LE(counters[last].host_synchronizations - counters[6].host_synchronizations, last - 6 + 2);
}

TEST_F(EmulatedGpu, LaunchesInAStepWhatThePlanSays) {
  for (const char* policy : {"float32", "mixed_float16"}) {
    SCOPED_TRACE(policy);
    set_global_policy(policy);
    // An optimizer is for one model.
    const auto options = [] {
      return CompileOptions{
          .optimizer = Adam(),
          .loss = "sparse_categorical_crossentropy",
          .metrics = {"accuracy"},
          .device = "cuda-emu",
          // Planned is a step that is fed with samples; gathering them is a launch.
          .data_on_device = false};
    };
    const std::vector<DemiEmulatorCounters> counters =
        count_steps(options(), DEMI_EMULATOR(demi_emulator_counters));
    const Model model = models::mnist_cnn({28, 28, 1}, 10);
    const Dataset data(Tensor({1, 28, 28, 1}, float32), Tensor({1}, int32));
    const PlannedStep planned = plan_training_step(model, data, options(), {.batch_size = 4});
    set_global_policy("float32");
    for (std::size_t i = 7; i + 1 < counters.size(); ++i) {
      EXPECT_EQ(counters[i].graph_operations - counters[i - 1].graph_operations,
                static_cast<std::uint64_t>(planned.launches()))
          << "step " << i;
    }
  }
}

int planned_launches(Builder build, const Shape& image, const std::string& profile) {
  set_global_policy("mixed_float16");
  const Model model = build(image, 10);
  set_global_policy("float32");
  const Dataset data =
      Dataset(Tensor(image.with_front(1), uint8), Tensor({1}, uint8)).rescaled(1 / 255.0);
  return plan_training_step(model, data,
                            {.optimizer = Adam(),
                             .loss = "sparse_categorical_crossentropy",
                             .metrics = {"accuracy"}},
                            {.batch_size = 256, .device_profile = profile})
      .launches();
}

TEST_F(EmulatedGpu, TakesTwentyLaunchesForAStepOfMnistCnn) {
  for (const char* profile : {"t4", "a100", "rtx4090", "h100", "h200", "b200"}) {
    EXPECT_LE(planned_launches(&models::mnist_cnn, {28, 28, 1}, profile), 20) << profile;
  }
}

TEST_F(EmulatedGpu, PredictsWithTheWeightsThatTheHostSets) {
  // Training makes copies of weights, which prediction reads.
  set_global_policy("mixed_float16");
  Model model = models::mnist_cnn({28, 28, 1}, 10);
  set_global_policy("float32");
  const Tensor x = testing::random_tensor({16, 28, 28, 1}, float32, 1, 0, 1);
  const Tensor y = testing::random_tensor({16}, int32, 2, 0, 10);
  const auto compile_for = [&](const char* device) {
    model.compile(
        {.optimizer = Adam(), .loss = "sparse_categorical_crossentropy", .device = device});
  };
  compile_for("cuda-emu");
  model.fit(x, y, {.batch_size = 8, .epochs = 1, .verbose = 0});
  std::vector<Tensor> weights = model.get_weights();
  for (Tensor& weight : weights) {
    for (float& value : weight.data<float>()) value *= -0.5F;
  }
  model.set_weights(weights);
  const Tensor with_copies = model.predict(x, {.batch_size = 16});
  model.fit(x, y, {.batch_size = 8, .epochs = 1, .verbose = 0});
  model.set_weights(weights);
  compile_for("cpu");
  const Tensor expected = model.predict(x, {.batch_size = 16});
  testing::expect_close(with_copies, testing::to_doubles(expected), 5e-3, 1.0, "predictions");
}

}  // namespace
}  // namespace demi
