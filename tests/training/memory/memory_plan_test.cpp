#include <algorithm>
#include <numeric>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/demi.h>

#include "tests/support/message_of.h"
#include "tests/support/small_models.h"

namespace demi {
namespace {

using testing::blobs;
using testing::classifier;
using ::testing::HasSubstr;
using testing::message_of;

/// With an optimizer of its own, since one trains one model.
CompileOptions options() {
  return {.optimizer = "adam",
          .loss = "sparse_categorical_crossentropy",
          .device = "cpu",
          .threads = 2};
}

/// Convolution, normalization, pooling, flatten, dropout, dense.
Model convolutions(const std::string& policy) {
  set_global_policy(policy);
  reset_layer_names();
  Sequential model({Input({12, 12, 3}), Conv2D({.filters = 8, .kernel_size = 3}),
                    BatchNormalization(), ReLU(), MaxPooling2D(), Flatten(),
                    Dropout({.rate = 0.25}), Dense({.units = 16, .activation = "relu"}),
                    Dense({.units = 4, .activation = "softmax"})});
  set_global_policy("float32");
  model.compile(options());
  return model;
}

TEST(MemoryPlan, PartsAddUp) {
  for (const StepMode mode : {StepMode::kTrain, StepMode::kEvaluate, StepMode::kPredict}) {
    const MemoryPlan plan = convolutions("mixed_float16").memory_plan(32, {.mode = mode});
    const PlannedBytes& bytes = plan.bytes;
    EXPECT_EQ(bytes.total, bytes.weights + bytes.optimizer + bytes.arena + bytes.input_buffers +
                               bytes.constants + bytes.step_state);
    std::size_t largest = 0, weights = 0, slots = 0;
    for (const MemoryMoment& moment : plan.timeline) largest = std::max(largest, moment.live());
    const std::size_t peak = plan.peak_call();
    EXPECT_EQ(plan.timeline.at(peak).live(), largest);
    EXPECT_LE(largest + bytes.workspace, bytes.arena);
    std::size_t held = 0;
    for (const PlannedBuffer& buffer : plan.held_at(peak)) held += buffer.bytes;
    EXPECT_EQ(held, largest);
    for (const LayerBytes& layer : plan.layers) {
      weights += layer.weights;
      slots += layer.optimizer;
    }
    EXPECT_EQ(weights, bytes.weights);
    EXPECT_EQ(slots, bytes.optimizer);
    EXPECT_EQ(bytes.optimizer > 0, mode == StepMode::kTrain);
    EXPECT_EQ(bytes.activations > 0, mode == StepMode::kTrain);
  }
}

TEST(MemoryPlan, NamesLayersAndWhatSharesBytes) {
  const MemoryPlan plan = convolutions("float32").memory_plan(32);
  EXPECT_EQ(plan.device, "cpu");
  EXPECT_EQ(plan.policy, "float32");
  ASSERT_GE(plan.layers.size(), 4u);
  EXPECT_EQ(plan.layers[0].layer, "conv2d");
  EXPECT_EQ(plan.layers[0].weights, (3u * 3 * 3 * 8 + 8) * 4);
  EXPECT_EQ(plan.layers[0].optimizer, 2 * plan.layers[0].weights);
  std::string aliases;
  for (const PlannedBuffer& buffer : plan.buffers) {
    for (const std::string& alias : buffer.aliases) aliases += alias + "; ";
  }
  EXPECT_THAT(aliases, HasSubstr("reshape of flatten, a view"));
  EXPECT_THAT(aliases, HasSubstr(", in place"));
  EXPECT_GT(plan.aliased_bytes(), 0u);
  const std::string text = to_string(plan);
  EXPECT_THAT(text, HasSubstr("One training step under float32, batch 32, on cpu"));
  EXPECT_THAT(text, HasSubstr("not demi's, measured"));
  EXPECT_THAT(text, HasSubstr("Peak: "));
  EXPECT_THAT(format_timeline(plan), HasSubstr("<- peak"));
}

TEST(MemoryPlan, OfAnotherPolicyIsThatOfAModelBuiltUnderIt) {
  for (const auto& [from, to] :
       {std::pair("float32", "mixed_float16"), std::pair("mixed_float16", "float32"),
        std::pair("float32", "mixed_bfloat16")}) {
    const Model model = convolutions(from);
    const MemoryPlan before = model.memory_plan(16);
    const MemoryPlan trial = model.memory_plan(16, {.policy = to});
    const MemoryPlan built = convolutions(to).memory_plan(16);
    EXPECT_EQ(trial.policy, to);
    EXPECT_EQ(trial.bytes.total, built.bytes.total);
    EXPECT_EQ(trial.bytes.activations, built.bytes.activations);
    EXPECT_EQ(trial.timeline.size(), built.timeline.size());
    // The trial leaves no trace.
    EXPECT_EQ(model.memory_plan(16).bytes.total, before.bytes.total);
    EXPECT_EQ(model.layers()[0]->dtype_policy().name(), from);
  }
}

TEST(MemoryPlan, ReadsHowSamplesAreStored) {
  const Model model = convolutions("float32");
  const Dataset bytes(Tensor({4, 12, 12, 3}, uint8), Tensor({4}, uint8));
  const std::size_t as_bytes = model.memory_plan(64, {.data = bytes}).bytes.input_buffers;
  // Each array begins at a multiple of 256.
  EXPECT_EQ(as_bytes, 2u * (64 * 12 * 12 * 3 + 256));
  EXPECT_EQ(model.memory_plan(64).bytes.input_buffers, 2u * 64 * (12 * 12 * 3 + 1) * 4);
}

TEST(MemoryPlan, IsWhatAFitAllocates) {
  Model model = classifier();
  model.compile(options());
  const MemoryPlan small = model.memory_plan(32, {.data = blobs(10)});
  const MemoryPlan large = model.memory_plan(64, {.data = blobs(10)});
  EXPECT_EQ(small.bytes.weights, static_cast<std::size_t>(4 * model.count_params()));
  EXPECT_EQ(small.bytes.optimizer, 2 * small.bytes.weights);
  EXPECT_GT(large.bytes.activations, small.bytes.activations);
}

TEST(MemoryPlan, RefusesWhatItCannotPlan) {
  Model model = convolutions("float32");
  const auto plan = [&](std::int64_t batch, const MemoryPlanOptions& options = {}) {
    return message_of<std::invalid_argument>([&] { (void)model.memory_plan(batch, options); });
  };
  EXPECT_EQ(plan(-3), "[memory_plan] expected a batch size >= 1. Received: -3.");
  EXPECT_THAT(plan(8, {.policy = "float61"}), HasSubstr("Received: 'float61'"));
  EXPECT_THAT(plan(8, {.policy = "float64"}), HasSubstr("whose variables are float64"));
  model.compile({});
  EXPECT_THAT(plan(8), HasSubstr("expected a model compiled with a loss"));
  EXPECT_GT(model.memory_plan(8, {.mode = StepMode::kPredict}).bytes.total, 0u);
}

TEST(MemoryPlan, OfAGpuThatIsNotThere) {
  const Model model = convolutions("mixed_float16");
  MemoryPlan plan;
  try {
    plan = model.memory_plan(32, {.device_profile = "h200"});
  } catch (const DeviceError& error) {
    GTEST_SKIP() << "NOT TESTED, no CUDA plugin: " << error.what();
  }
  EXPECT_EQ(plan.device, "h200");
  EXPECT_FALSE(plan.overhead.measured);
  EXPECT_GT(plan.overhead.bytes, 0u);
  EXPECT_THAT(to_string(plan), HasSubstr("not demi's, estimate"));
}

TEST(CompareMemory, SaysWhatShrinksAndWhy) {
  const Model model = convolutions("float32");
  const MemoryComparison comparison = compare_memory(model, 64);
  for (const ComparedBytes& row : comparison.categories) {
    if (row.category == "weights" || row.category == "optimizer slots") {
      EXPECT_EQ(row.first, row.second) << row.category;
    }
    if (row.category == "activations") {
      EXPECT_LT(row.second, 0.7 * static_cast<double>(row.first));
      EXPECT_THAT(row.reason, HasSubstr("in 16 bits"));
    }
    if (row.category == "compute copies") {
      EXPECT_EQ(row.first, 0u);
      EXPECT_GT(row.second, 0u);
    }
    EXPECT_EQ(row.reason.empty(), row.category == "total") << row.category;
  }
  EXPECT_THAT(to_string(comparison), HasSubstr("Weights never shrink"));
}

TEST(CompareMemory, BreaksEvenWhereItSays) {
  // Weights weigh more than activations here.
  set_global_policy("float32");
  Sequential model(
      {Input({256}), Dense({.units = 256}), Dense({.units = 256}), Dense({.units = 8})});
  model.compile({.loss = "mse", .device = "cpu", .threads = 2});
  const std::int64_t batch = compare_memory(model, 1).break_even;
  ASSERT_GT(batch, 1);
  const auto saved = [&](std::int64_t at) {
    return static_cast<double>(model.memory_plan(at).bytes.total) -
           static_cast<double>(model.memory_plan(at, {.policy = "mixed_float16"}).bytes.total);
  };
  EXPECT_GT(saved(batch), 0);
  EXPECT_LE(saved(batch - 1), 0);
}

TEST(MaxBatchSize, IsExact) {
  for (const char* policy : {"float32", "mixed_float16"}) {
    const Model model = convolutions(policy);
    for (const std::size_t limit : {300'000u, 1'000'000u, 20'000'000u}) {
      const std::int64_t batch = max_batch_size(model, limit);
      EXPECT_LE(model.memory_plan(batch).bytes.total, limit);
      EXPECT_GT(model.memory_plan(batch + 1).bytes.total, limit);
    }
    const std::size_t of_hundred = model.memory_plan(100).bytes.total;
    EXPECT_EQ(max_batch_size(model, of_hundred), 100);
    EXPECT_EQ(max_batch_size(model, of_hundred - 1), 99);
  }
}

TEST(MaxBatchSize, NamesTheNumbersOfALimitBelowTheWeights) {
  const Model model = convolutions("float32");
  const PlannedBytes least = model.memory_plan(1).bytes;
  const std::string message =
      message_of<std::invalid_argument>([&] { (void)max_batch_size(model, 1000); });
  EXPECT_THAT(message, HasSubstr("at least " + std::to_string(least.total) + " bytes"));
  EXPECT_THAT(message, HasSubstr("weights " + std::to_string(least.weights)));
  EXPECT_THAT(message, HasSubstr("Received: 1000."));
}

TEST(Summary, CarriesTheTotalsOfACompiledModel) {
  const Model model = convolutions("float32");
  std::ostringstream text;
  model.summary(text, {.batch_size = 8});
  EXPECT_THAT(text.str(), HasSubstr(" Training step of 8 samples on cpu: "));
}

}  // namespace
}  // namespace demi
