// What tests/ops does not reach of the CUDA kernels of a step's state: more tensors and pieces than
// one launch takes, and every place where a number may stop being finite.
#include <cmath>
#include <limits>

#include <demi/ops/loss_scale.h>
#include <demi/ops/schedule.h>

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

}  // namespace
}  // namespace demi
