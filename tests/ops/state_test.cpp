#include <demi/ops/state.h>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/support/compare.h"
#include "tests/support/message_of.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using testing::expect_close;
using testing::expect_identical;
using testing::message_of;
using testing::random_tensor;
using testing::run_kernel;
using testing::to_doubles;

TEST(Increment, CountsOnlyAppliedSteps) {
  const Tensor counter = Tensor::scalar(std::int64_t{41});
  const Tensor yes = Tensor::scalar(true);
  const Tensor no = Tensor::scalar(false);
  EXPECT_EQ(run_kernel("increment", {}, {&counter, &yes})[0].item(), 42);
  EXPECT_EQ(run_kernel("increment", {}, {&counter, &no})[0].item(), 41);
}

TEST(Cycle, CompletesAtItsLength) {
  const Tensor yes = Tensor::scalar(true);
  const Tensor no = Tensor::scalar(false);
  Tensor position = Tensor::scalar(std::int64_t{0});
  std::vector<double> completed;
  for (const Tensor* apply : {&yes, &yes, &no, &yes, &yes, &no, &yes, &yes}) {
    auto outputs = run_kernel("cycle", ops::CycleAttributes{3}, {&position, apply});
    position = std::move(outputs[0]);
    completed.push_back(outputs[1].item());
  }
  EXPECT_EQ(completed, (std::vector<double>{0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(position.item(), 0);
}

TEST(MovingAverage, AgreesWithTheFormulaForEveryDtype) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    const Tensor running = random_tensor({1500}, dtype, 1);
    const Tensor value = random_tensor({1500}, accumulation_dtype(dtype), 2);
    const Tensor yes = Tensor::scalar(true);
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 1500; ++i) {
      expected.push_back(running.at(i) * 0.9 + value.at(i) * (1 - 0.9));
    }
    expect_close(run_kernel("moving_average", ops::MovingAverageAttributes{0.9},
                            {&running, &value, &yes})[0],
                 expected, 2 * testing::rounding_unit(dtype));
  }
}

TEST(MovingAverage, WritesNothingUnlessApplied) {
  const Tensor running = random_tensor({70}, float32, 1);
  const Tensor value = Tensor::full({70}, NAN, float32);
  const Tensor no = Tensor::scalar(false);
  expect_identical(
      run_kernel("moving_average", ops::MovingAverageAttributes{0.9}, {&running, &value, &no})[0],
      running);
}

TEST(Assign, CopiesOnlyIfApplied) {
  const Tensor variable = random_tensor({5, 2}, float16, 1);
  const Tensor value = random_tensor({5, 2}, float16, 2);
  const Tensor yes = Tensor::scalar(true);
  const Tensor no = Tensor::scalar(false);
  expect_identical(run_kernel("assign", {}, {&variable, &value, &yes})[0], value);
  expect_identical(run_kernel("assign", {}, {&variable, &value, &no})[0], variable);
}

TEST(Accumulate, WeighsValuesAndCountsThoseThatAreNotFinite) {
  Tensor total = Tensor::scalar(0.0);
  Tensor weight = Tensor::scalar(0.0);
  Tensor non_finite = Tensor::scalar(std::int64_t{0});
  const auto add = [&](const Tensor& value, const Tensor& value_weight) {
    auto outputs =
        run_kernel("accumulate", {}, {&total, &weight, &non_finite, &value, &value_weight});
    total = std::move(outputs[0]);
    weight = std::move(outputs[1]);
    non_finite = std::move(outputs[2]);
  };
  add(Tensor::scalar(0.1f), Tensor::scalar(std::int64_t{128}));
  add(Tensor::scalar(NAN), Tensor::scalar(std::int64_t{128}));
  add(Tensor::scalar(2.5), Tensor::scalar(29.0f));
  add(Tensor::scalar(std::numeric_limits<float>::infinity()), Tensor::scalar(1.0));
  EXPECT_EQ(total.item(), static_cast<double>(0.1f) * 128 + 2.5 * 29);
  EXPECT_EQ(weight.item(), 157);
  EXPECT_EQ(non_finite.item(), 2);
}

TEST(State, FunctionsMakeNewVersionsOfVariables) {
  const auto graph = ir::Graph::create();
  const auto counter = make_variable_state("counter", Tensor::scalar(std::int64_t{0}),
                                           VariableRole::kStepState, false);
  const SymbolicTensor first = graph->tensor(graph->read_variable(counter));
  const SymbolicTensor second = ops::increment(first);
  EXPECT_EQ(graph->tensor(graph->read_variable(counter)), second);
  EXPECT_NE(first, second);
  ir::verify(*graph);
}

TEST(State, RefusesMisuse) {
  const auto graph = ir::Graph::create();
  const auto x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const auto y = graph->tensor(graph->add_input("y", {{3}, float32}));
  const auto refused = [&](const auto& f) { return message_of<std::invalid_argument>(f); };
  EXPECT_EQ(refused([&] { (void)ops::increment(x); }),
            "[increment] expected an int64 scalar and a bool scalar. Received: float32[2] and "
            "bool[].");
  EXPECT_EQ(refused([&] { (void)ops::moving_average(x, y, 0.9); }),
            "[moving_average] expected two floating tensors of one shape and a bool scalar. "
            "Received: float32[2], float32[3] and bool[].");
  EXPECT_EQ(refused([&] { (void)ops::moving_average(x, x, 1.5); }),
            "[moving_average] expected a momentum in [0, 1]. Received: 1.5.");
}

}  // namespace
}  // namespace demi
