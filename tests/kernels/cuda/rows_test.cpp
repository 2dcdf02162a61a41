// Softmax, cross-entropies, reductions and the finite check on the device where shapes reach what
// small tests do not: more rows than a grid has warps, columns that are no multiple of a packet,
// sums split among blocks, and more tensors than one launch has parameters for.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/ops/cross_entropy.h>
#include <demi/ops/reduction.h>
#include <demi/ops/softmax.h>

#include "tests/kernels/cuda/cuda_kernels.h"
#include "tests/support/compare.h"
#include "tests/support/op_harness.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::CrossEntropyAttributes;
using ops::ReductionAttributes;
using ops::SoftmaxAttributes;
using testing::expect_close;
using testing::random_tensor;
using testing::run_kernel;
using testing::to_doubles;

constexpr std::int64_t kManyRows = 20000;    // more than the warps of any grid of these kernels
constexpr std::int64_t kManyBlocks = 70000;  // more than the blocks of any grid

class CudaRows : public testing::CudaKernels {};

TEST_F(CudaRows, SoftmaxOfManyRowsAndOfAnInnerAxis) {
  const Tensor many = random_tensor({kManyRows, 3}, float16, 1, -8, 8);
  expect_agreement("softmax", SoftmaxAttributes{-1}, {&many}, 1e-6);
  const Tensor inner = random_tensor({3, 35, 67}, float32, 2, -8, 8);
  expect_agreement("log_softmax", SoftmaxAttributes{1}, {&inner}, 1e-6);
  const Tensor dy = random_tensor({3, 35, 67}, bfloat16, 3);
  const Tensor probabilities = random_tensor({3, 35, 67}, float32, 4, 0, 2.0 / 35);
  expect_agreement("softmax_backward", SoftmaxAttributes{1}, {&dy, &probabilities}, 1e-6);
}

TEST_F(CudaRows, CrossEntropyOfManyRowsWithLabelsOutOfRange) {
  const Tensor scores = random_tensor({kManyRows, 3}, float16, 1, 0.01, 0.9);
  const Tensor labels = random_tensor({kManyRows}, int32, 2, -1, 4);
  const Tensor dloss = random_tensor({kManyRows}, float32, 3);
  for (const bool from_logits : {false, true}) {
    const CrossEntropyAttributes attributes{from_logits};
    expect_agreement("sparse_cross_entropy", attributes, {&scores, &labels}, 1e-6);
    expect_agreement("sparse_cross_entropy_backward", attributes, {&dloss, &scores, &labels}, 1e-5);
  }
}

TEST_F(CudaRows, ReductionsOfOddColumnsAndOfSplitSums) {
  for (const Shape& shape : {Shape{kManyBlocks, 1}, Shape{kManyBlocks, 3}, Shape{4001, 35}}) {
    // Sums of small integers are exact in whichever order, so that no element may be missed.
    const Tensor x = random_tensor(shape, int32, 1, -8, 8).to(float16);
    for (const std::vector<int>& axes : {std::vector{0}, std::vector{1}, std::vector{0, 1}}) {
      const ReductionAttributes attributes{axes, false};
      expect_agreement("sum", attributes, {&x}, 0);
      expect_agreement("max", attributes, {&x}, 0);
    }
  }
}

TEST_F(CudaRows, SplitSumsHaveTheSameBitsInEveryRun) {
  const Tensor x = random_tensor({4001, 35}, float32, 1);
  for (const std::vector<int>& axes : {std::vector{0}, std::vector{0, 1}}) {
    const ReductionAttributes attributes{axes, false};
    const auto sum = [&] { return run_kernel("sum", attributes, {&x}, {.device = kDevice}); };
    testing::expect_identical(sum()[0], sum()[0]);
  }
}

TEST_F(CudaRows, ANaNIsTheMaximumInWhicheverSplitItLies) {
  for (const std::int64_t place : {std::int64_t{0}, kManyBlocks / 2, kManyBlocks - 1}) {
    std::vector<float> values(kManyBlocks, 1.0F);
    values[static_cast<std::size_t>(place)] = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = Tensor::from(values, {kManyBlocks});
    const ReductionAttributes attributes{{0}, false};
    EXPECT_TRUE(std::isnan(run_kernel("max", attributes, {&x}, {.device = kDevice})[0].item()));
    EXPECT_EQ(run_kernel("argmax", attributes, {&x}, {.device = kDevice})[0].item(),
              static_cast<double>(place));
  }
}

TEST_F(CudaRows, TheFiniteCheckOfMoreTensorsThanOneLaunchTakes) {
  constexpr std::size_t kTensors = 500;
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < kTensors; ++i) {
    values.push_back(
        Tensor::full({static_cast<std::int64_t>(i % 37)}, 1, i % 2 == 0 ? float16 : float32));
  }
  const auto verdict = [&values] {
    std::vector<const Tensor*> inputs;
    for (const Tensor& value : values) inputs.push_back(&value);
    return run_kernel("all_finite", {}, inputs, {.device = kDevice})[0].item() != 0;
  };
  EXPECT_TRUE(verdict());
  // A tensor of the first launch, of one in the middle and of the last.
  for (const std::size_t bad : {std::size_t{1}, std::size_t{250}, kTensors - 1}) {
    Tensor good = std::move(values[bad]);
    values[bad] = Tensor::full(good.shape(), std::numeric_limits<double>::infinity(), good.dtype());
    EXPECT_FALSE(verdict()) << bad;
    values[bad] = std::move(good);
  }
}

}  // namespace
}  // namespace demi
