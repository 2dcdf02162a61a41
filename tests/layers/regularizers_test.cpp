#include <demi/regularizers.h>

#include <cmath>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi::testing {
namespace {

Tensor penalty(const Regularizer& regularizer, const Tensor& x, DType compute = float32) {
  std::vector<Tensor> inputs;
  inputs.push_back(x.clone());
  return std::move(run(
      [&](const std::vector<SymbolicTensor>& values) {
        return std::vector{regularizer(values[0])};
      },
      inputs, {.compute_dtype = compute})[0]);
}

TEST(Regularizer, SumsAbsoluteValuesAndSquares) {
  const Tensor x = Tensor::from(std::vector<float>{1, -2, 0.5}, {3});
  EXPECT_FLOAT_EQ(static_cast<float>(penalty(regularizers::L1(0.5), x).item()), 1.75F);
  EXPECT_FLOAT_EQ(static_cast<float>(penalty(regularizers::L2(2), x).item()), 10.5F);
  EXPECT_FLOAT_EQ(static_cast<float>(penalty(regularizers::L1L2(1, 1), x).item()), 8.75F);
  EXPECT_FLOAT_EQ(static_cast<float>(penalty("l2", x).item()), 0.0525F);
  EXPECT_EQ(penalty("l1_l2", x).item(), 0);
}

TEST(Regularizer, DoesNotOverflowInHalfPrecision) {
  const Tensor x = Tensor::full({1024}, 300, float16);
  const Tensor result = penalty(regularizers::L2(1), x, float16);
  EXPECT_EQ(result.dtype(), float32);
  EXPECT_EQ(result.item(), 1024.0 * 300 * 300);
}

TEST(Regularizer, SurvivesItsConfig) {
  for (const Regularizer& regularizer :
       {regularizers::L1(0.1), regularizers::L2(0.2), regularizers::L1L2(0.3, 0.4)}) {
    const Config config = regularizer.get_config();
    EXPECT_EQ(Regularizer::from_config(Config::parse(config.to_json())).get_config(), config);
  }
  EXPECT_EQ(Regularizer::from_config("l2").get_config(), regularizers::L2().get_config());
}

TEST(Regularizer, RefusesWrongNamesAndFactors) {
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { Regularizer("l3"); }),
      "[regularizer] expected one of 'l1', 'l2', 'l1_l2'. Received: 'l3'. Did you mean 'l1'?");
  EXPECT_THROW((void)regularizers::L2(-1), std::invalid_argument);
  EXPECT_THROW((void)regularizers::L1(NAN), std::invalid_argument);
}

}  // namespace
}  // namespace demi::testing
