#include <demi/activations.h>

#include <cmath>

#include <gtest/gtest.h>

#include <demi/ops/binary.h>

#include "tests/support/op_harness.h"

namespace demi::testing {
namespace {

std::vector<double> values(const ActivationSpec& activation, const std::vector<double>& x) {
  std::vector<Tensor> inputs;
  inputs.push_back(Tensor::from(x, {1, static_cast<std::int64_t>(x.size())}));
  return to_doubles(run(
      [&](const std::vector<SymbolicTensor>& tensors) {
        return std::vector{activation(tensors[0])};
      },
      inputs)[0]);
}

TEST(ActivationSpec, AppliesTheNamedFunction) {
  const std::vector<double> x = {-1.5, 0.5};
  const auto expect = [&](const char* name, auto function) {
    const std::vector<double> y = values(name, x);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(y[i], function(x[i]), 1e-12) << name;
  };
  const double sum = std::exp(-1.5) + std::exp(0.5);
  expect("linear", [](double v) { return v; });
  expect("relu", [](double v) { return v > 0 ? v : 0; });
  expect("sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); });
  expect("tanh", [](double v) { return std::tanh(v); });
  expect("softmax", [&](double v) { return std::exp(v) / sum; });
  expect("log_softmax", [&](double v) { return v - std::log(sum); });
  expect("gelu", [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); });
  expect("softplus", [](double v) { return std::log1p(std::exp(v)); });
  expect("exponential", [](double v) { return std::exp(v); });
}

TEST(ActivationSpec, TakesFunctions) {
  const ActivationSpec doubled = [](const SymbolicTensor& x) { return x * 2.0; };
  EXPECT_EQ(values(doubled, {3})[0], 6);
  EXPECT_FALSE(doubled.is_linear());
  EXPECT_THROW((void)doubled.get_config(), std::invalid_argument);
}

TEST(ActivationSpec, IsLinearWhereNothingIsSaid) {
  EXPECT_TRUE(ActivationSpec().is_linear());
  EXPECT_TRUE(ActivationSpec("linear").is_linear());
  EXPECT_EQ(ActivationSpec().get_config(), Config("linear"));
  EXPECT_TRUE(ActivationSpec::from_config(Config()).is_linear());
}

}  // namespace
}  // namespace demi::testing
