#include <demi/ops/binary.h>
#include <demi/ops/cast.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;  // NOLINT(google-build-using-namespace)

constexpr DType kFloating[] = {float32, float16, bfloat16, float64};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

using PairFunction = SymbolicTensor (*)(const SymbolicTensor&, const SymbolicTensor&);

struct PairOp {
  const char* name;
  PairFunction function;
  double (*reference)(double, double);
  double low, high;  ///< of both inputs
};

const PairOp kArithmetic[] = {
    {"add", ops::add, [](double a, double b) { return a + b; }, -2, 2},
    {"subtract", ops::subtract, [](double a, double b) { return a - b; }, -2, 2},
    {"multiply", ops::multiply, [](double a, double b) { return a * b; }, -2, 2},
    {"divide", ops::divide, [](double a, double b) { return a / b; }, 0.5, 2},
    {"maximum", ops::maximum, [](double a, double b) { return a < b ? b : a; }, -2, 2},
    {"minimum", ops::minimum, [](double a, double b) { return b < a ? b : a; }, -2, 2},
    {"power", ops::power, [](double a, double b) { return std::pow(a, b); }, 0.5, 2},
};

const PairOp kComparisons[] = {
    {"equal", ops::equal, [](double a, double b) { return a == b ? 1.0 : 0.0; }, -3, 3},
    {"greater", ops::greater, [](double a, double b) { return a > b ? 1.0 : 0.0; }, -3, 3},
    {"greater_equal", ops::greater_equal, [](double a, double b) { return a >= b ? 1.0 : 0.0; }, -3,
     3},
};

struct ShapePair {
  Shape a, b;
};

const ShapePair kShapes[] = {
    {{1031}, {1031}},                             // the same
    {{}, {7}},                                    // a scalar
    {{5, 700}, {1}},                              // one element
    {{300, 10}, {10}},                            // a bias
    {{3, 700}, {700}},                            // a bias longer than a block
    {{4, 5, 6, 3}, {1, 1, 1, 3}},                 // the same with unit axes
    {{40, 30}, {40, 1}},                          // a column
    {{6, 1}, {1, 7}},                             // both broadcast
    {{2, 1, 4, 1, 3}, {5, 1, 6, 1}},              // alternating axes
    {{2, 3, 2, 1, 2, 3, 1, 2}, {3, 2, 1, 3, 1}},  // the largest rank
    {{0, 3}, {3}},                                // nothing
    {{2, 1, 3}, {0, 1}},                          // broadcast to nothing
};

/// Element by element, walking the index of each output element digit by digit.
template <class Function>
std::vector<double> broadcast_reference(const std::vector<Tensor>& inputs, const Shape& shape,
                                        Function function) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    std::vector<double> values;
    for (const Tensor& input : inputs) {
      std::int64_t rest = i, offset = 0, stride = 1;
      for (int axis = -1; axis >= -shape.rank(); --axis) {
        const std::int64_t index = rest % shape[axis];
        rest /= shape[axis];
        if (axis < -input.shape().rank()) continue;
        if (input.shape()[axis] != 1) offset += index * stride;
        stride *= input.shape()[axis];
      }
      values.push_back(input.at(offset));
    }
    result.push_back(function(values));
  }
  return result;
}

void expect_pair_op(const PairOp& op, const Tensor& a, const Tensor& b, double relative,
                    double floor) {
  const auto graph = [&](const std::vector<SymbolicTensor>& x) { return op.function(x[0], x[1]); };
  const std::vector<Tensor> inputs = tensors(a.clone(), b.clone());
  for (const std::string& device : test_devices()) {
    const Tensor y = run_one(graph, inputs, {.device = device});
    const Shape shape = broadcast(a.shape(), b.shape(), "test");
    ASSERT_EQ(y.shape(), shape);
    expect_close(
        y,
        broadcast_reference(inputs, shape,
                            [&](const std::vector<double>& x) { return op.reference(x[0], x[1]); }),
        relative, floor,
        device + " " + op.name + " " + std::string(to_string(a.dtype())) + a.shape().to_string() +
            " " + b.shape().to_string());
  }
}

TEST(Binary, AgreesWithTheReferenceForEveryShapeAndDtype) {
  for (const PairOp& op : kArithmetic) {
    for (const DType dtype : kFloating) {
      for (const ShapePair& shapes : kShapes) {
        const Tensor a = random_tensor(shapes.a, dtype, 1, op.low, op.high);
        const Tensor b = random_tensor(shapes.b, dtype, 2, op.low, op.high);
        const DType result =
            op.function == PairFunction(ops::power) && is_half(dtype) ? float32 : dtype;
        // One rounding, after one in float32 for the 16-bit types; power is the library's.
        const double units = op.function == PairFunction(ops::power) ? 2.5 : 1.001;
        expect_pair_op(op, a, b, units * rounding_unit(result), 0x1p-14);
      }
    }
  }
}

TEST(Binary, ComputesIntegersExactly) {
  for (const PairOp& op : kArithmetic) {
    if (op.function == PairFunction(ops::divide) || op.function == PairFunction(ops::power))
      continue;
    for (const DType dtype : {int32, int64, uint8}) {
      const Tensor a = random_tensor({4, 50}, dtype, 1, 8, 15);
      const Tensor b = random_tensor({50}, dtype, 2, 1, 8);
      expect_pair_op(op, a, b, 0, 0);
    }
  }
  for (const PairOp& op : kComparisons) {
    for (const DType dtype : {int32, int64, uint8, float16, float32}) {
      const Tensor a = random_tensor({4, 50}, dtype, 1, 0, 6);
      expect_pair_op(op, a, random_tensor({50}, dtype, 2, 0, 6), 0, 0);
      expect_pair_op(op, a, a, 0, 0);
    }
  }
}

TEST(Binary, ComparesLargeIntegersExactly) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const Tensor a = Tensor::from(std::vector<std::int64_t>{large, large}, {2});
  const Tensor b = Tensor::from(std::vector<std::int64_t>{large, large - 1}, {2});
  const std::vector<Tensor> inputs = tensors(a.clone(), b.clone());
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::equal(x[0], x[1]), ops::greater(x[0], x[1])};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{1, 0}));
  EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{0, 1}));
}

TEST(Binary, WrapsIntegersAround) {
  const Tensor a = Tensor::from(std::vector<std::uint8_t>{200, 3}, {2});
  const std::vector<Tensor> inputs = tensors(a.clone());
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::add(x[0], 100), ops::subtract(x[0], 4), ops::multiply(x[0], 2)};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{44, 103}));
  EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{196, 255}));
  EXPECT_EQ(to_doubles(y[2]), (std::vector<double>{144, 6}));
}

TEST(Binary, FollowsIeeeForNanAndInfinity) {
  for (const DType dtype : kFloating) {
    const Tensor a =
        Tensor::from(std::vector<double>{kNan, 1, kInf, -kInf, 0, 1, kInf}, {7}).to(dtype);
    const Tensor b = Tensor::from(std::vector<double>{1, kNan, 2, kInf, 0, 0, kInf}, {7}).to(dtype);
    const std::vector<Tensor> inputs = tensors(a.clone(), b.clone());
    for (const std::string& device : test_devices()) {
      const auto y = run(
          [](const auto& x) {
            return std::vector{ops::maximum(x[0], x[1]), ops::minimum(x[0], x[1]),
                               ops::divide(x[0], x[1]), ops::add(x[0], x[1])};
          },
          inputs, {.device = device});
      expect_close(y[0], {kNan, kNan, kInf, kInf, 0, 1, kInf}, 0, 0, "maximum");
      expect_close(y[1], {kNan, kNan, 2, -kInf, 0, 0, kInf}, 0, 0, "minimum");
      expect_close(y[2], {kNan, kNan, kInf, kNan, kNan, kInf, kNan}, 0, 0, "divide");
      expect_close(y[3], {kNan, kNan, kInf, kNan, 0, 1, kInf}, 0, 0, "add");
    }
  }
}

TEST(Binary, OverflowsFloat16ToInfinity) {
  const std::vector<Tensor> inputs = tensors(Tensor::full({3}, 40000, float16));
  const Tensor y = run_one([](const auto& x) { return ops::add(x[0], x[0]); }, inputs);
  expect_close(y, {kInf, kInf, kInf}, 0, 0);
}

TEST(Binary, GivesTheSameBitsForAnyNumberOfThreads) {
  const std::vector<Tensor> inputs =
      tensors(random_tensor({700, 130}, float16, 1), random_tensor({130}, float16, 2));
  const auto graph = [](const auto& x) {
    return std::vector{ops::multiply(x[0], x[1]), ops::sum_to(x[0], {130}),
                       ops::sum_to(x[0], {700, 1}), ops::sum_to(x[0], {})};
  };
  const auto one = run(graph, inputs, {.threads = 1});
  for (const int threads : {2, 4}) {
    const auto many = run(graph, inputs, {.threads = threads});
    for (std::size_t i = 0; i < one.size(); ++i) expect_identical(many[i], one[i]);
  }
}

TEST(Binary, WritesOverADyingInput) {
  const std::vector<Tensor> inputs =
      tensors(random_tensor({2000}, float32, 1), random_tensor({2000}, float32, 2));
  const Tensor y = run_one(
      [](const auto& x) {
        const SymbolicTensor sum = ops::add(x[0], x[1]);
        return ops::multiply(ops::subtract(x[0], ops::multiply(sum, 2)), x[1]);
      },
      inputs);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const double a = inputs[0].at(i), b = inputs[1].at(i);
    expected.push_back((a - 2 * (a + b)) * b);
  }
  expect_close(y, expected, 1e-6);
}

// ---- where, broadcast_to, sum_to ------------------------------------------------------------

TEST(Where, SelectsElementByElement) {
  for (const DType dtype : {float32, float16, bfloat16, float64, int32, int64, uint8}) {
    const std::vector<Tensor> inputs =
        tensors(random_tensor({40, 1, 30}, int32, 1, 0, 2).to(boolean),
                random_tensor({20, 30}, dtype, 2, 0, 100), random_tensor({}, dtype, 3, 0, 100));
    for (const std::string& device : test_devices()) {
      const Tensor y = run_one([](const auto& x) { return ops::where(x[0], x[1], x[2]); }, inputs,
                               {.device = device});
      EXPECT_EQ(y.dtype(), dtype);
      expect_close(
          y,
          broadcast_reference(inputs, {40, 20, 30},
                              [](const std::vector<double>& x) { return x[0] != 0 ? x[1] : x[2]; }),
          0, 0);
    }
  }
}

TEST(Where, DoesNotTouchWhatIsNotChosen) {
  const std::vector<Tensor> inputs =
      tensors(Tensor::from(std::vector<double>{1, 0, 2}, {3}).to(boolean),
              Tensor::from(std::vector<float>{1, NAN, 2}, {3}),
              Tensor::from(std::vector<float>{INFINITY, 3, NAN}, {3}));
  const Tensor y = run_one([](const auto& x) { return ops::where(x[0], x[1], x[2]); }, inputs);
  EXPECT_EQ(to_doubles(y), (std::vector<double>{1, 3, 2}));
}

TEST(BroadcastTo, RepeatsElements) {
  for (const DType dtype : kFloating) {
    const std::vector<Tensor> inputs = tensors(random_tensor({3, 1, 5}, dtype, 1));
    for (const std::string& device : test_devices()) {
      const Tensor y = run_one(
          [](const auto& x) {
            return ops::broadcast_to(x[0], {2, 3, 700, 5});
          },
          inputs, {.device = device});
      expect_close(y,
                   broadcast_reference(inputs, {2, 3, 700, 5},
                                       [](const std::vector<double>& x) { return x[0]; }),
                   0, 0);
    }
  }
}

struct SumCase {
  Shape from, to;
};

const SumCase kSums[] = {
    {{64, 13, 13, 24}, {24}},
    {{5, 3000}, {3000}},
    {{3000, 5}, {5}},
    {{40, 1000}, {40, 1}},
    {{70000}, {}},
    {{70000, 1}, {1}},
    {{2, 3, 4, 5}, {3, 1, 5}},
    {{6, 5, 4, 3}, {6, 1, 4, 1}},
    {{4, 3}, {4, 3}},
    {{0, 3}, {3}},
    {{3, 0}, {3, 1}},
    {{2, 0}, {1, 0}},
    {{1, 1}, {}},
};

std::vector<double> sum_to_reference(const Tensor& x, const Shape& to) {
  std::vector<double> sums(static_cast<std::size_t>(to.elements()), 0.0);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t rest = i, offset = 0, stride = 1;
    for (int axis = -1; axis >= -x.shape().rank(); --axis) {
      const std::int64_t index = rest % x.shape()[axis];
      rest /= x.shape()[axis];
      if (axis < -to.rank()) continue;
      if (to[axis] != 1) offset += index * stride;
      stride *= to[axis];
    }
    sums[static_cast<std::size_t>(offset)] += x.at(i);
  }
  return sums;
}

TEST(SumTo, SumsWhatWasBroadcast) {
  for (const SumCase& shapes : kSums) {
    for (const DType dtype : kFloating) {
      const std::vector<Tensor> inputs = tensors(random_tensor(shapes.from, dtype, 1));
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return ops::sum_to(x[0], shapes.to); },
                                 inputs, {.device = device});
        ASSERT_EQ(y.shape(), shapes.to);
        ASSERT_EQ(y.dtype(), dtype);
        const double terms = static_cast<double>(std::max<std::int64_t>(
            1, shapes.from.elements() / std::max<std::int64_t>(1, shapes.to.elements())));
        // The reference, too, is in float64.
        const double unit = dtype == float64 ? 1e-15 : rounding_unit(float32);
        expect_close(y, sum_to_reference(inputs[0], shapes.to),
                     rounding_unit(dtype) + 4 * unit * std::sqrt(terms), 1.0,
                     shapes.from.to_string() + " to " + shapes.to.to_string());
      }
    }
  }
}

TEST(SumTo, StoresFloat32WhereItIsCastToIt) {
  // float16 has no 4001.
  const std::vector<Tensor> inputs = tensors(Tensor::full({4001, 3}, 1, float16));
  const auto graph = [](const auto& x) { return ops::cast(ops::sum_to(x[0], {3}), float32); };
  const Tensor y = run_one(graph, inputs, {.simplify = true});
  EXPECT_EQ(to_doubles(y), (std::vector<double>{4001, 4001, 4001}));
}

// ---- Numbers --------------------------------------------------------------------------------

TEST(Binary, TakesNumbersInTheDtypeOfTheTensor) {
  for (const DType dtype : {float32, float16, bfloat16, float64, int32}) {
    const std::vector<Tensor> inputs =
        tensors(Tensor::from(std::vector<double>{1, 2, 3}, {3}).to(dtype));
    const auto y = run(
        [](const auto& x) {
          return std::vector{x[0] + 2,
                             2 + x[0],
                             x[0] - 2,
                             2 - x[0],
                             x[0] * 2,
                             2 * x[0],
                             ops::maximum(x[0], 2),
                             ops::minimum(x[0], 2)};
        },
        inputs);
    for (const Tensor& tensor : y) EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{3, 4, 5}));
    EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{3, 4, 5}));
    EXPECT_EQ(to_doubles(y[2]), (std::vector<double>{-1, 0, 1}));
    EXPECT_EQ(to_doubles(y[3]), (std::vector<double>{1, 0, -1}));
    EXPECT_EQ(to_doubles(y[4]), (std::vector<double>{2, 4, 6}));
    EXPECT_EQ(to_doubles(y[5]), (std::vector<double>{2, 4, 6}));
    EXPECT_EQ(to_doubles(y[6]), (std::vector<double>{2, 2, 3}));
    EXPECT_EQ(to_doubles(y[7]), (std::vector<double>{1, 2, 2}));
  }
  const std::vector<Tensor> inputs = tensors(Tensor::from(std::vector<double>{1, 2, 4}, {3}));
  const auto y = run(
      [](const auto& x) {
        return std::vector{x[0] / 2, 2 / x[0], ops::power(x[0], 3), ops::power(x[0], 2)};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{0.5, 1, 2}));
  EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{2, 1, 0.5}));
  EXPECT_EQ(to_doubles(y[2]), (std::vector<double>{1, 8, 64}));
  EXPECT_EQ(to_doubles(y[3]), (std::vector<double>{1, 4, 16}));
}

TEST(Binary, LetsANumberFollowTheTensorUnderAutocast) {
  // rescale runs in the compute dtype; the number was traced beside a float32 value.
  const std::string text =
      printed_graph([](const auto& x) { return std::vector{ops::add(ops::rescale(x[0], 2), 0.5)}; },
                    {{{4, 3}, float32}}, {.compute_dtype = float16, .simplify = true});
  EXPECT_EQ(text.find("float32[]"), std::string::npos) << text;
  EXPECT_NE(text.find("add(%1, %5) : float16[4, 3]"), std::string::npos) << text;
}

// ---- Gradients ------------------------------------------------------------------------------

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

TEST(Binary, GivesGradientsOfTheDtypeOfTheirInput) {
  const std::vector<Tensor> inputs =
      tensors(random_tensor({40, 3}, float16, 1), random_tensor({3}, float16, 2));
  const std::vector<Tensor> weights = tensors(random_tensor({40, 3}, float16, 3));
  const auto gradient =
      gradients([](const auto& x) { return std::vector{ops::add(x[0], x[1])}; }, inputs, weights);
  expect_identical(gradient[0], weights[0]);
  EXPECT_EQ(gradient[1].dtype(), float16);
  expect_close(gradient[1], sum_to_reference(weights[0], {3}), rounding_unit(float16));
}

// ---- Misuse ---------------------------------------------------------------------------------

SymbolicTensor input(DType dtype, const Shape& shape) {
  static const auto graph = ir::Graph::create();
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

template <class Call>
std::string refusal(Call call) {
  return message_of<std::invalid_argument>([&] { (void)call(); });
}

TEST(Binary, InfersUnknownBatchesAndPromotes) {
  const SymbolicTensor x = input(float16, {Shape::kUnknown, 3});
  EXPECT_EQ(ops::add(x, input(float32, {3})).shape(), (Shape{Shape::kUnknown, 3}));
  EXPECT_EQ(ops::add(x, input(float32, {3})).dtype(), float32);
  EXPECT_EQ(ops::add(x, input(int64, {3})).dtype(), float16);
  EXPECT_EQ(ops::add(input(int32, {3}), input(int64, {3})).dtype(), int64);
  EXPECT_EQ(ops::power(x, 2).dtype(), float32);
  EXPECT_EQ(ops::sum_to(x, {3}).dtype(), float16);
}

TEST(Binary, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal([] {
              return ops::add(input(float32, {2, 3}), input(float32, {4}));
            }),
            "[add] expected shapes that broadcast: extents equal or 1, counted from the last. "
            "Received: [2, 3] and [4].");
  EXPECT_EQ(refusal([] { return ops::divide(input(int32, {3}), input(int32, {3})); }),
            "[divide] expected a floating value. Received: int32[3] and int32[3].");
  EXPECT_EQ(refusal([] { return ops::power(input(int32, {3}), 2); }),
            "[power] expected a floating value. Received: int32[3] and int32[].");
  EXPECT_EQ(refusal([] { return ops::multiply(input(int32, {3}), 0.5); }),
            "[multiply] expected a whole number beside int32[3]. Received: 0.5.");
  EXPECT_EQ(refusal([] {
              return ops::where(input(float32, {3}), input(float32, {3}), input(float32, {3}));
            }),
            "[where] expected a bool condition and two values. Received: float32[3], float32[3] "
            "and float32[3].");
  EXPECT_EQ(refusal([] {
              return ops::broadcast_to(input(float32, {3}), {3, 2});
            }),
            "[broadcast_to] expected one value that broadcasts to [3, 2]. Received: float32[3].");
  EXPECT_EQ(refusal([] {
              return ops::sum_to(input(float32, {3, 2}), {3});
            }),
            "[sum_to] expected one floating value to whose shape [3] broadcasts. Received: "
            "float32[3, 2].");
  EXPECT_EQ(refusal([] { return ops::add(SymbolicTensor(), 1); }),
            "[add] expected a value. Received: an empty SymbolicTensor.");
}

}  // namespace
}  // namespace demi
