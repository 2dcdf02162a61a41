// What mixed precision and fusion do to the memory of a training step, from plans alone.
#include <gtest/gtest.h>

#include <demi/demi.h>

#include "kernels/forwarding_backend.h"
#include "models/mnist_cnn.h"
#include "models/resnet20.h"
#include "src/training/compile.h"
#include "src/training/memory/describe_memory.h"
#include "src/training/model_impl.h"

namespace demi {
namespace {

/// The CPU without any fused kernel.
class UnfusedBackend final : public ForwardingBackend {
 public:
  UnfusedBackend() : ForwardingBackend(make_cpu_backend(2)) {}
  [[nodiscard]] Capabilities capabilities() const override { return {}; }
};

PlannedBytes plan_training(Model (*build)(const Shape&, int), const Shape& image,
                           const std::string& policy, std::int64_t batch,
                           const std::shared_ptr<Backend>& backend) {
  set_global_policy(policy);
  const Model model = build(image, 10);
  set_global_policy("float32");
  const LayerGraph& graph = model.impl().graph();
  TrainingSpec training;
  training.losses = {LossSpec("sparse_categorical_crossentropy")};
  training.loss_names = {"loss"};
  training.optimizer = policy == "mixed_float16"
                           ? std::shared_ptr<Optimizer>(new LossScaleOptimizer(Adam()))
                           : std::shared_ptr<Optimizer>(new Adam());
  const StepState state = make_step_state(training);
  StepSpec spec;
  spec.mode = StepMode::kTrain;
  spec.inputs = {{.name = "x", .type = {image.with_front(batch), uint8}, .scale = 1 / 255.0}};
  spec.targets = {{.name = "y", .type = {{batch}, uint8}}};
  const auto plan = plan_step(graph, spec, &training, &state, *backend);
  return internal::planned_bytes(graph, *plan, training.optimizer.get());
}

double ratio(std::size_t a, std::size_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

TEST(TrainingMemory, MixedPolicyHalvesTheActivationsOfResnet20) {
  for (const Shape& image : {Shape{28, 28, 1}, Shape{32, 32, 3}}) {
    const auto cpu = make_cpu_backend(2);
    const PlannedBytes full = plan_training(&models::resnet20, image, "float32", 128, cpu);
    const PlannedBytes mixed = plan_training(&models::resnet20, image, "mixed_float16", 128, cpu);
    EXPECT_LE(ratio(mixed.activations, full.activations), 0.55);
    EXPECT_EQ(mixed.weights, full.weights);
  }
}

TEST(TrainingMemory, KeepsOnlyPooledValuesAndByteIndicesOfMnistCnn) {
  const auto cpu = make_cpu_backend(2);
  const PlannedBytes full = plan_training(&models::mnist_cnn, {28, 28, 1}, "float32", 128, cpu);
  const PlannedBytes mixed =
      plan_training(&models::mnist_cnn, {28, 28, 1}, "mixed_float16", 128, cpu);
  const PlannedBytes unfused = plan_training(&models::mnist_cnn, {28, 28, 1}, "float32", 128,
                                             std::make_shared<UnfusedBackend>());
  EXPECT_LE(ratio(mixed.activations, full.activations), 0.62);
  EXPECT_LE(ratio(mixed.activations, unfused.activations), 0.30);
  // Image, pooled values and indices of both convolutions, the dense layer, the logits' row.
  const std::size_t per_image = 28 * 28 * 2 + 13 * 13 * 32 * 3 + 5 * 5 * 64 * 3 + 128 * 2;
  EXPECT_NEAR(ratio(mixed.activations, 128 * per_image), 1.0, 0.01);
}

TEST(TrainingMemory, IsLinearInTheBatch) {
  const auto cpu = make_cpu_backend(2);
  const auto at = [&](std::int64_t batch) {
    return plan_training(&models::mnist_cnn, {28, 28, 1}, "mixed_float16", batch, cpu).activations;
  };
  EXPECT_NEAR(ratio(at(1024), at(128)), 8.0, 0.1);
}

TEST(TrainingMemory, ThePartialBatchAtTheEndFitsIntoWhatWholeBatchesNeed) {
  const auto cpu = make_cpu_backend(2);
  for (const char* policy : {"float32", "mixed_float16"}) {
    const auto at = [&](std::int64_t batch) {
      return plan_training(&models::mnist_cnn, {28, 28, 1}, policy, batch, cpu);
    };
    const PlannedBytes whole = at(128);
    for (const std::int64_t rest : {1, 29, 96, 127}) {
      const PlannedBytes partial = at(rest);
      EXPECT_LE(partial.arena, whole.arena) << policy << ", " << rest;
      EXPECT_LE(partial.workspace, whole.workspace) << policy << ", " << rest;
    }
  }
}

}  // namespace
}  // namespace demi
