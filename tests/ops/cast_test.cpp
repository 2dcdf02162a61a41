#include <demi/ops/cast.h>
#include <demi/ops/matmul.h>

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "src/passes/passes.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;  // NOLINT(google-build-using-namespace)

constexpr DType kAll[] = {float32, float64, float16, bfloat16, int32, int64, uint8, boolean};

SymbolicTensor input(DType dtype, const Shape& shape) {
  const auto graph = ir::Graph::create();
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

TEST(Cast, KeepsTheShapeAndGivesTheDtype) {
  const SymbolicTensor y = ops::cast(input(float32, {Shape::kUnknown, 3}), float16);
  EXPECT_EQ(y.dtype(), float16);
  EXPECT_EQ(y.shape(), (Shape{Shape::kUnknown, 3}));
}

TEST(Cast, IsKeptWhereThePolicyMayYetNarrowItsInput) {
  const auto graph = ir::Graph::create();
  graph->scope().compute_dtype = float16;
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2, 2}, float32}));
  const SymbolicTensor y = ops::cast(ops::matmul(x, x), float32);
  graph->add_output("y", y.value());
  passes::autocast(*graph);
  EXPECT_EQ(graph->type(graph->producer(y.value()).inputs[0]).dtype, float16);
  EXPECT_EQ(y.dtype(), float32);
}

TEST(Cast, AgreesWithTensorToForEveryPairOfDtypes) {
  std::vector<double> values = {0,    -0.0, 0.5, -1.5,  1e-8, 65519, 65520,
                                3e38, -1e9, 300, 1e300, 2049, 257,   -INFINITY};
  for (int i = 0; i < 40000; ++i) values.push_back(i * 0.37 - 7000);
  const auto count = static_cast<std::int64_t>(values.size());
  const Tensor source = Tensor::from(values, Shape{count});
  for (const DType from : kAll) {
    const auto inputs = tensors(source.to(from));
    for (const DType to : kAll) {
      for (const std::string& device : test_devices()) {
        const Tensor y =
            run_one([&](const auto& x) { return ops::cast(x[0], to); }, inputs, {.device = device});
        expect_identical(y, inputs[0].to(to),
                         std::string(to_string(from)) + " " + std::string(to_string(to)));
      }
    }
  }
}

TEST(Cast, KeepsNaNAndGivesZeroForItAsAnInteger) {
  for (const DType from : {float32, float64, float16, bfloat16}) {
    const auto inputs = tensors(Tensor::from(std::vector<double>{NAN}, Shape{1}).to(from));
    for (const DType to : kAll) {
      for (const std::string& device : test_devices()) {
        const Tensor y =
            run_one([&](const auto& x) { return ops::cast(x[0], to); }, inputs, {.device = device});
        if (is_floating(to)) {
          EXPECT_TRUE(std::isnan(y.at(0))) << device << " " << to_string(from) << to_string(to);
        } else {
          EXPECT_EQ(y.at(0), to == boolean ? 1 : 0)
              << device << " " << to_string(from) << to_string(to);
        }
      }
    }
  }
}

TEST(Cast, WorksOnNothing) {
  const Tensor y = run_one([](const auto& x) { return ops::cast(x[0], float16); },
                           tensors(Tensor({0, 3}, float32)));
  EXPECT_EQ(y.shape(), (Shape{0, 3}));
}

TEST(Cast, HasTheOppositeCastAsGradient) {
  for (const DType from : {float32, float64, float16, bfloat16}) {
    for (const DType to : {float32, float64, float16, bfloat16}) {
      const auto weights = tensors(random_tensor({70}, to, 1));
      const auto gradient =
          gradients([&](const auto& x) { return std::vector{ops::cast(x[0], to)}; },
                    tensors(Tensor({70}, from)), weights);
      expect_identical(gradient[0], weights[0].to(from));
    }
  }
}

TEST(Cast, CarriesNoGradientThroughIntegers) {
  const auto gradient = gradients(
      [](const auto& x) { return std::vector{ops::cast(ops::cast(x[0], int32), float32)}; },
      tensors(Tensor::full({2}, 1.5, float32)), tensors(Tensor::full({2}, 1, float32)));
  EXPECT_EQ(to_doubles(gradient[0]), (std::vector<double>{0, 0}));
}

TEST(Rescale, AgreesWithTheReferenceForEveryDtype) {
  for (const DType dtype : {uint8, int32, int64, float32, float16, bfloat16, float64}) {
    const auto inputs = tensors(random_tensor({9, 3001}, dtype, 1, 0, 256));
    std::vector<double> expected = to_doubles(inputs[0]);
    for (double& value : expected) value = value * 0.25 - 3;
    for (const std::string& device : test_devices()) {
      const Tensor y = run_one([](const auto& x) { return ops::rescale(x[0], 0.25, -3); }, inputs,
                               {.device = device});
      expect_close(y, expected, 1.001 * rounding_unit(y.dtype()), 1.0,
                   std::string(to_string(dtype)));
    }
  }
}

TEST(Rescale, StoresTheDtypeItIsCastTo) {
  const auto inputs = tensors(random_tensor({1000}, uint8, 1, 0, 256));
  const auto graph = [](const auto& x) {
    return ops::cast(ops::rescale(x[0], 1 / 255.0), float16);
  };
  const std::string text = printed_graph([&](const auto& x) { return std::vector{graph(x)}; },
                                         {{{1000}, uint8}}, {.simplify = true});
  EXPECT_EQ(text.find("cast"), std::string::npos) << text;
  const Tensor y = run_one(graph, inputs, {.simplify = true});
  for (std::int64_t i = 0; i < 1000; ++i) {
    const float exact = static_cast<float>(inputs[0].at(i)) * static_cast<float>(1 / 255.0);
    EXPECT_EQ(y.at(i), static_cast<float>(Float16(exact)));
  }
}

TEST(Rescale, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto inputs = tensors(random_tensor({100, 784}, uint8, 1, 0, 256));
  const auto graph = [](const auto& x) { return ops::rescale(x[0], 1 / 255.0); };
  const Tensor one = run_one(graph, inputs, {.threads = 1});
  for (const int threads : {2, 4}) {
    expect_identical(run_one(graph, inputs, {.threads = threads}), one);
  }
}

TEST(Rescale, HasTheGradientOfFiniteDifferences) {
  expect_gradients([](const auto& x) { return std::vector{ops::rescale(x[0], -1.7, 3)}; },
                   tensors(random_tensor({3, 4}, float64, 1)));
}

TEST(Rescale, GivesAFloatingType) {
  EXPECT_EQ(ops::rescale(input(uint8, {2}), 1 / 255.0).dtype(), float32);
  EXPECT_EQ(ops::rescale(input(bfloat16, {2}), 2).dtype(), bfloat16);
}

TEST(Rescale, RefusesBoolAndNonFiniteFactors) {
  using std::invalid_argument;
  EXPECT_EQ(message_of<invalid_argument>([] { (void)ops::rescale(input(boolean, {2}), 1); }),
            "[rescale] expected one value of a number type. Received: bool[2].");
  EXPECT_EQ(message_of<invalid_argument>([] { (void)ops::rescale(input(float32, {2}), NAN); }),
            "[rescale] expected a finite scale and offset. Received: nan and 0.");
}

}  // namespace
}  // namespace demi
