#include <demi/ops/binary.h>

#include <gtest/gtest.h>

#include "tests/ops/binary/pair_ops.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;          // NOLINT(google-build-using-namespace)
using namespace demi::testing::binary;  // NOLINT(google-build-using-namespace)

TEST(Binary, HasTheGradientsOfFiniteDifferences) {
  const ShapePair shapes[] = {{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{3, 1}, {1, 4}}, {{}, {2, 3}}};
  for (const PairOp& op : kArithmetic) {
    for (const ShapePair& pair : shapes) {
      SCOPED_TRACE(op.name);
      const std::vector<Tensor> inputs =
          tensors(random_tensor(pair.a, float64, 1, op.low, op.high),
                  random_tensor(pair.b, float64, 2, op.low, op.high));
      expect_gradients([&](const auto& x) { return std::vector{op.function(x[0], x[1])}; }, inputs);
    }
  }
}

TEST(Binary, HasGradientsThroughNumbersAndSelections) {
  const std::vector<Tensor> inputs =
      tensors(random_tensor({3, 4}, float64, 1, 0.5, 2), random_tensor({4}, float64, 2, 0.5, 2));
  expect_gradients(
      [](const auto& x) {
        const SymbolicTensor condition = ops::greater(x[0], x[1]);
        return std::vector{ops::power(x[0], 3),
                           ops::power(x[0], 2),
                           2 / x[0],
                           1 - x[0] * 3,
                           ops::where(condition, x[0], x[1]),
                           ops::broadcast_to(x[1], {2, 3, 4}),
                           ops::sum_to(x[0], {4})};
      },
      inputs);
}

TEST(Binary, SharesTheGradientOnATie) {
  const std::vector<Tensor> inputs = tensors(Tensor::from(std::vector<float>{1, 2, 3}, {3}),
                                             Tensor::from(std::vector<float>{1, 3, 2}, {3}));
  const std::vector<Tensor> weights = tensors(Tensor::full({3}, 1, float32));
  const auto gradient = gradients(
      [](const auto& x) { return std::vector{ops::maximum(x[0], x[1])}; }, inputs, weights);
  EXPECT_EQ(to_doubles(gradient[0]), (std::vector<double>{0.5, 0, 1}));
  EXPECT_EQ(to_doubles(gradient[1]), (std::vector<double>{0.5, 1, 0}));
}

TEST(Power, HasFiniteGradientsAtZero) {
  const std::vector<Tensor> inputs = tensors(Tensor::from(std::vector<float>{0, 0, -2}, {3}),
                                             Tensor::from(std::vector<float>{0, 2, 3}, {3}));
  const std::vector<Tensor> weights = tensors(Tensor::full({3}, 1, float32));
  const auto gradient =
      gradients([](const auto& x) { return std::vector{ops::power(x[0], x[1])}; }, inputs, weights);
  EXPECT_EQ(to_doubles(gradient[0]), (std::vector<double>{0, 0, 12}));
  EXPECT_EQ(to_doubles(gradient[1]), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace demi
