// What tests/ops does not reach of the CUDA kernels of a step's state: more tensors and pieces than
// one launch takes, and every place where a number may stop being finite.
#include <cmath>
#include <limits>

#include <demi/ops/loss_scale.h>
#include <demi/ops/movement.h>
#include <demi/ops/optimizer_update.h>
#include <demi/ops/schedule.h>
#include <demi/ops/state.h>

#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

using testing::random_tensor;
using testing::run_kernel;

class CudaTrainingState : public testing::CudaKernels {
 protected:
  static bool all_finite(const std::vector<Tensor>& tensors) {
    std::vector<const Tensor*> inputs;
    for (const Tensor& tensor : tensors) inputs.push_back(&tensor);
    return run_kernel("all_finite", {}, inputs, {.device = kDevice})[0].at(0) != 0;
  }
};

TEST_F(CudaTrainingState, FindsWhatIsNotFiniteAtEveryPlaceOfATensor) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor finite = Tensor::from(std::vector<double>(21, -65504), Shape{21}).to(dtype);
    for (const double bad : {double(INFINITY), -double(INFINITY), double(NAN)}) {
      for (const std::size_t place : {0, 1, 7, 8, 15, 16, 19, 20}) {
        std::vector<double> values(21, -65504);
        values[place] = bad;
        std::vector<Tensor> tensors;
        tensors.push_back(finite.to(dtype));
        EXPECT_TRUE(all_finite(tensors));
        tensors.push_back(Tensor::from(values, Shape{21}).to(dtype));
        EXPECT_FALSE(all_finite(tensors)) << to_string(dtype) << " " << place << " " << bad;
      }
    }
  }
}

TEST_F(CudaTrainingState, ChecksMoreTensorsThanOneLaunchTakes) {
  constexpr DType kDtypes[] = {float16, float32, bfloat16, float64};
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < 500; ++i) {
    tensors.push_back(random_tensor({i % 7, 11}, kDtypes[i % 4], 1));
  }
  tensors[3] = random_tensor({100001}, float16, 2);
  EXPECT_TRUE(all_finite(tensors));
  for (const std::size_t bad : {1, 184, 499}) {
    const Tensor kept = tensors[bad].to(tensors[bad].dtype());
    std::vector<double> values(10, 1.0);
    values[9] = NAN;
    tensors[bad] = Tensor::from(values, Shape{10}).to(kept.dtype());
    EXPECT_FALSE(all_finite(tensors)) << bad;
    tensors[bad] = kept.to(kept.dtype());
  }
  EXPECT_TRUE(all_finite(tensors));
}

TEST_F(CudaTrainingState, ClipsGradientsOfMorePiecesThanFitIntoALittleMemory) {
  // 124 pieces; each leaves a sum in the workspace.
  const Tensor scale = Tensor::scalar(0.5F);
  const Tensor a = random_tensor({340'001}, float32, 1), b = random_tensor({160'003}, float16, 2);
  for (const bool global : {false, true}) {
    expect_agreement("clip_coefficients", ops::ClipAttributes{10, global}, {&scale, &a, &b}, 1e-6);
  }
}

TEST_F(CudaTrainingState, EvaluatesEverySchedule) {
  PiecewiseConstantDecay pieces;  // more than one launch takes
  for (std::int64_t i = 0; i < 400; ++i) {
    pieces.boundaries.push_back(10 * i);
    pieces.values.push_back(1.0 / static_cast<double>(i + 1));
  }
  pieces.values.push_back(1e-5);
  const LearningRate rates[] = {
      0.125,
      ExponentialDecay{.initial_learning_rate = 0.1, .decay_steps = 30, .decay_rate = 0.9},
      ExponentialDecay{0.1, 30, 0.9, true},
      InverseTimeDecay{0.1, 30, 0.5, true},
      PolynomialDecay{0.1, 40, 0.01, 2, false},
      PolynomialDecay{0.1, 40, 0.01, 0.5, true},
      CosineDecay{.initial_learning_rate = 0.01,
                  .decay_steps = 50,
                  .warmup_target = 0.1,
                  .warmup_steps = 10},
      PiecewiseConstantDecay{{}, {0.5}},
      pieces};
  for (const LearningRate& rate : rates) {
    for (const std::int64_t step : {-1, 0, 1, 10, 11, 45, 60, 1910, 1911, 1920, 1921, 3990, 3991}) {
      const Tensor iterations = Tensor::scalar(step);
      const auto value =
          run_kernel("schedule", ops::ScheduleAttributes{rate}, {&iterations}, {.device = kDevice});
      const auto expected = static_cast<float>(rate.at(step));
      if (std::isnan(expected)) continue;
      EXPECT_FLOAT_EQ(static_cast<float>(value[0].item()), expected) << step;
    }
  }
}

/// A weight of 2 rows and 3 columns with everything that an update of it may touch.
struct Updated {
  Tensor rate = Tensor::scalar(0.5F), scale = Tensor::scalar(0.25F);
  Tensor apply = Tensor::full({}, 1, boolean);
  Tensor iterations = Tensor::scalar(std::int64_t{0});
  Tensor w = random_tensor({2, 3}, float32, 1);
  Tensor bias = random_tensor({3}, float32, 2);
  Tensor g = random_tensor({2, 3}, float16, 3);
  Tensor g_bias = random_tensor({3}, float32, 4);
  Tensor copy = Tensor({3, 2}, float16), bias_copy = Tensor({3}, bfloat16);

  static Tensor transposed(const Tensor& x) {
    return std::move(
        run_kernel("transpose", ops::TransposeAttributes{{1, 0}}, {&x}, {.device = "cpu"})[0]);
  }
  /// By SGD without momentum; the kernel's outputs.
  [[nodiscard]] std::vector<Tensor> update(const char* device, bool with_copies) const {
    const Tensor g_transposed = transposed(g);
    std::vector<const Tensor*> inputs = {&rate, &scale, &apply, &iterations, &w, &bias};
    inputs.insert(inputs.end(), {with_copies ? &g_transposed : &g, &g_bias});
    ops::SgdAttributes attributes;
    if (with_copies) {
      attributes.common.transposed_gradients = {true, false};
      attributes.common.copies = {{.variable = 1}, {.variable = 0, .transposed = true}};
      inputs.insert(inputs.end(), {&bias_copy, &copy});
    }
    return run_kernel("sgd_update", attributes, inputs, {.device = device});
  }
};

TEST_F(CudaTrainingState, UpdatesWriteCopiesAndReadTransposedGradients) {
  const Updated step;
  const std::vector<Tensor> expected = step.update("cpu", false);
  const std::vector<Tensor> actual = step.update(kDevice, true);
  ASSERT_EQ(actual.size(), 4u);
  testing::expect_close(actual[0], testing::to_doubles(expected[0]), 1e-6, 1.0, "w");
  testing::expect_close(actual[1], testing::to_doubles(expected[1]), 1e-6, 1.0, "bias");
  testing::expect_close(actual[2], testing::to_doubles(actual[1].to(bfloat16)), 0, 1.0,
                        "copy of the bias");
  testing::expect_close(actual[3], testing::to_doubles(Updated::transposed(actual[0].to(float16))),
                        0, 1.0, "copy of w");
}

TEST_F(CudaTrainingState, ASkippedUpdateLeavesCopiesAlone) {
  Updated step;
  step.apply = Tensor::full({}, 0, boolean);
  step.copy = random_tensor({3, 2}, float16, 7);
  const std::vector<Tensor> actual = step.update(kDevice, true);
  testing::expect_close(actual[0], testing::to_doubles(step.w), 0, 1.0, "w");
  testing::expect_close(actual[3], testing::to_doubles(step.copy), 0, 1.0, "copy");
}

/// The kernels of some ops, and how many launches a sequence of them takes.
TEST_F(CudaTrainingState, SmallOperationsShareLaunches) {
  const auto backend = testing::test_backend(kDevice);
  const TensorType number{{}, float32}, flag{{}, boolean}, counter{{}, int64}, row{{8}, float32};
  std::vector<std::unique_ptr<Kernel>> kernels;
  const auto add = [&](const char* op, const Attributes& attributes,
                       const std::vector<TensorType>& inputs,
                       const std::vector<TensorType>& outputs) {
    kernels.push_back(backend->select({op, attributes, inputs, outputs}).kernel);
    ASSERT_NE(kernels.back(), nullptr) << op;
  };
  add("increment", {}, {counter, flag}, {counter});
  add("all_finite", {}, {row}, {flag});
  add("reciprocal", {}, {number}, {number});
  add("increment", {}, {counter, flag}, {counter});
  add("relu", {}, {row}, {row});
  add("increment", {}, {counter, flag}, {counter});
  add("increment", {}, {counter, flag}, {counter});
  for (int i = 0; i < 3; ++i) {
    add("moving_average", ops::MovingAverageAttributes{}, {row, row, flag}, {row});
  }
  add("increment", {}, {counter, flag}, {counter});
  std::vector<Kernel*> list;
  for (const auto& kernel : kernels) list.push_back(kernel.get());
  EXPECT_EQ(backend->launch_counts(list), (std::vector<int>{1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1}));
}

}  // namespace
}  // namespace demi
