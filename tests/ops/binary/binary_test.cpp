#include <demi/ops/binary.h>
#include <demi/ops/cast.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/ops/binary/pair_ops.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;          // NOLINT(google-build-using-namespace)
using namespace demi::testing::binary;  // NOLINT(google-build-using-namespace)

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

const PairOp kComparisons[] = {
    {"equal", ops::equal, [](double a, double b) { return a == b ? 1.0 : 0.0; }, -3, 3},
    {"greater", ops::greater, [](double a, double b) { return a > b ? 1.0 : 0.0; }, -3, 3},
    {"greater_equal", ops::greater_equal, [](double a, double b) { return a >= b ? 1.0 : 0.0; }, -3,
     3},
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
