#include <demi/ops/dropout.h>

#include <cmath>

#include <gtest/gtest.h>

#include "src/core/philox.h"
#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::DropoutAttributes;
using testing::message_of;
using testing::run_kernel;

Tensor drop(const Tensor& x, double rate, std::uint64_t seed, std::int64_t step, int threads = 2) {
  const Tensor counter = Tensor::scalar(step);
  return std::move(run_kernel("dropout", DropoutAttributes{rate, seed}, {&x, &counter},
                              {.threads = threads})[0]);
}

TEST(Dropout, KeepsWhatThePhiloxStreamSaysForEveryDtype) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    for (const std::int64_t count : {0, 1, 5, 255, 257, 20000}) {
      const Tensor x = Tensor::full({count}, 1.5, dtype);
      const Tensor y = drop(x, 0.3, 42, 7);
      ASSERT_EQ(y.dtype(), dtype);
      const Tensor kept = Tensor::full({1}, 1.5 / 0.7, dtype);
      for (std::int64_t i = 0; i < count; ++i) {
        const auto words = philox4x32(42, static_cast<std::uint64_t>(i / 4), 7);
        const float u = philox_uniform(words[static_cast<std::size_t>(i % 4)]);
        ASSERT_NEAR(y.at(i), u >= 0.3 ? kept.at(0) : 0.0, 1e-6) << i;
      }
    }
  }
}

TEST(Dropout, DropsTheGivenShareAndDiffersBetweenSteps) {
  const Tensor x = Tensor::full({100000}, 1, float32);
  const Tensor first = drop(x, 0.25, 1, 0);
  const Tensor second = drop(x, 0.25, 1, 1);
  double zeros = 0;
  double sum = 0;
  double both = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    zeros += first.at(i) == 0;
    sum += first.at(i);
    both += first.at(i) == 0 && second.at(i) == 0;
  }
  EXPECT_NEAR(zeros / 1e5, 0.25, 0.006);  // four standard deviations
  EXPECT_NEAR(sum / 1e5, 1.0, 0.008);
  EXPECT_NEAR(both / 1e5, 0.0625, 0.004);
}

TEST(Dropout, GivesTheSameBitsForAnyThreadCount) {
  const Tensor x = Tensor::full({40001}, 0.1, float16);
  const Tensor one = drop(x, 0.5, 3, 9, 1);
  const Tensor four = drop(x, 0.5, 3, 9, 4);
  for (std::int64_t i = 0; i < x.elements(); ++i) ASSERT_EQ(one.at(i), four.at(i));
}

TEST(Dropout, RateZeroKeepsAndRateOneDropsEverything) {
  const Tensor x = Tensor::full({5000}, 3, float32);
  const Tensor all = drop(x, 0, 1, 1);
  const Tensor none = drop(x, 1, 1, 1);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    ASSERT_EQ(all.at(i), 3.0);
    ASSERT_EQ(none.at(i), 0.0);
  }
}

TEST(Dropout, HasTheSameMaskInItsGradient) {
  std::vector<Tensor> inputs;
  inputs.push_back(testing::random_tensor({300}, float64, 6));
  inputs.push_back(Tensor::scalar(std::int64_t{5}));
  testing::expect_gradients(
      [](const std::vector<SymbolicTensor>& in) -> std::vector<SymbolicTensor> {
        return {ops::dropout(in[0], 0.4, 11, in[1])};
      },
      inputs);
}

TEST(Dropout, RefusesBadRatesAndSteps) {
  const auto graph = ir::Graph::create();
  const auto x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const auto step = graph->tensor(graph->add_input("step", {{}, int64}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)ops::dropout(x, 1.5, 0, step); }),
            "[dropout] expected a rate in [0, 1]. Received: 1.5.");
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)ops::dropout(x, 0.5, 0, x); }),
            "[dropout] expected a floating tensor and an int64 scalar. Received: float32[2] and "
            "float32[2].");
  EXPECT_EQ(ops::dropout(x, 0.5, 0, step).shape(), (Shape{2}));
}

}  // namespace
}  // namespace demi
