#include <demi/ops/cast.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>

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

double softplus_reference(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

struct UnaryOp {
  const char* name;
  SymbolicTensor (*function)(const SymbolicTensor&);
  double (*reference)(double);
  double low, high;
  double units;   ///< bound of the error of float32 results in rounding units
  bool wide;      ///< 16-bit inputs give float32
  bool integers;  ///< integers are accepted
  double at_inf;  ///< values at the infinities
  double at_minus_inf;
};

const UnaryOp kOps[] = {
    {"negative", ops::negative, [](double x) { return -x; }, -3, 3, 0, false, true, -kInf, kInf},
    {"abs", ops::abs, [](double x) { return std::abs(x); }, -3, 3, 0, false, true, kInf, kInf},
    {"square", ops::square, [](double x) { return x * x; }, -3, 3, 1, true, true, kInf, kInf},
    {"reciprocal", ops::reciprocal, [](double x) { return 1 / x; }, 0.2, 3, 1, true, false, 0,
     -0.0},
    {"sign", ops::sign, [](double x) { return x > 0   ? 1.0
                                              : x < 0 ? -1.0
                                                      : x; }, -3, 3, 0, false,
     true, 1, -1},
    {"exp", ops::exp, [](double x) { return std::exp(x); }, -10, 10, 2, true, false, kInf, 0},
    {"log", ops::log, [](double x) { return std::log(x); }, 0.01, 50, 2, true, false, kInf, kNan},
    {"sqrt", ops::sqrt, [](double x) { return std::sqrt(x); }, 0, 50, 1, true, false, kInf, kNan},
    {"softplus", ops::softplus, softplus_reference, -10, 10, 4, true, false, kInf, 0},
    {"relu", ops::relu, [](double x) { return x > 0 ? x : 0; }, -3, 3, 0, false, true, kInf, 0},
    {"sigmoid", ops::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -9, 9, 4, false,
     false, 1, 0},
    {"tanh", ops::tanh, [](double x) { return std::tanh(x); }, -4, 4, 4, false, false, 1, -1},
    {"gelu", ops::gelu, [](double x) { return x * normal_cdf(x); }, -5, 5, 40, false, false, kInf,
     -0.0},
};

std::vector<double> map(const Tensor& x, double (*function)(double)) {
  std::vector<double> values = to_doubles(x);
  for (double& value : values) value = function(value);
  return values;
}

TEST(Unary, AgreesWithTheReferenceForEveryDtype) {
  for (const UnaryOp& op : kOps) {
    for (const DType dtype : kFloating) {
      for (const Shape& shape : {Shape{}, Shape{3, 1}, Shape{7, 1025}, Shape{0, 4}}) {
        const auto inputs = tensors(random_tensor(shape, dtype, 5, op.low, op.high));
        const DType result = op.wide && is_half(dtype) ? float32 : dtype;
        const double unit = rounding_unit(is_half(result) ? float32 : result);
        const double rounding = is_half(result) ? 1.001 * rounding_unit(result) : 0;
        for (const std::string& device : test_devices()) {
          const Tensor y =
              run_one([&](const auto& x) { return op.function(x[0]); }, inputs, {.device = device});
          ASSERT_EQ(y.shape(), shape);
          ASSERT_EQ(y.dtype(), result) << op.name;
          expect_close(y, map(inputs[0], op.reference), op.units * unit + rounding, 0x1p-14,
                       device + " " + op.name + " " + std::string(to_string(dtype)));
        }
      }
    }
  }
}

TEST(Unary, ComputesIntegersExactly) {
  for (const UnaryOp& op : kOps) {
    if (!op.integers) continue;
    for (const DType dtype : {int32, int64}) {
      const auto inputs = tensors(random_tensor({1000}, dtype, 5, -9, 9));
      const Tensor y = run_one([&](const auto& x) { return op.function(x[0]); }, inputs);
      ASSERT_EQ(y.dtype(), dtype);
      expect_close(y, map(inputs[0], op.reference), 0, 0, op.name);
    }
  }
}

TEST(Unary, PassesNanAndKnowsTheInfinities) {
  for (const UnaryOp& op : kOps) {
    for (const DType dtype : kFloating) {
      const auto inputs =
          tensors(Tensor::from(std::vector<double>{kNan, kInf, -kInf}, {3}).to(dtype));
      for (const std::string& device : test_devices()) {
        const Tensor y =
            run_one([&](const auto& x) { return op.function(x[0]); }, inputs, {.device = device});
        expect_close(y, {kNan, op.at_inf, op.at_minus_inf}, 0, 0,
                     op.name + std::string(to_string(dtype)));
      }
    }
  }
}

TEST(Unary, IsRightAtZero) {
  const auto inputs = tensors(Tensor::from(std::vector<float>{0, -0.0f}, {2}));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::log(x[0]), ops::reciprocal(x[0]), ops::sqrt(x[0]), ops::exp(x[0])};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{-kInf, -kInf}));
  EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{kInf, -kInf}));
  EXPECT_EQ(to_doubles(y[2]), (std::vector<double>{0, 0}));
  EXPECT_EQ(to_doubles(y[3]), (std::vector<double>{1, 1}));
}

TEST(Unary, DoesNotOverflowInTheMiddle) {
  const auto inputs = tensors(Tensor::from(std::vector<float>{300, -300, 60000, -60000}, {4}));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::softplus(x[0]), ops::sigmoid(x[0]), ops::tanh(x[0]),
                           ops::gelu(x[0])};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{300, 0, 60000, 0}));
  EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{1, 0, 1, 0}));
  EXPECT_EQ(to_doubles(y[2]), (std::vector<double>{1, -1, 1, -1}));
  EXPECT_EQ(to_doubles(y[3]), (std::vector<double>{300, 0, 60000, 0}));
}

TEST(Unary, OverflowsFloat16OnlyOnTheWayOut) {
  const auto inputs = tensors(Tensor::full({2}, 255, float16), Tensor::full({2}, 256, float16));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::cast(ops::square(x[0]), float16),
                           ops::cast(ops::square(x[1]), float16)};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), (std::vector<double>{65024, 65024}));
  EXPECT_EQ(to_doubles(y[1]), (std::vector<double>{kInf, kInf}));
}

TEST(Unary, SumsOfSquaresDoNotOverflowUnderAFloat16Policy) {
  const auto norm = [](const auto& x) {
    return std::vector{ops::sqrt(ops::sum(ops::square(x[0]), {-1}))};
  };
  const RunOptions options{.compute_dtype = float16, .simplify = true};
  const auto large = tensors(Tensor::full({1, 5}, 256, float16));
  EXPECT_NEAR(run(norm, large, options)[0].item(), 256 * std::sqrt(5.0), 1e-3);
  // d norm / d x = x / norm, also where x² is nearly 0 in float16.
  for (const double size : {256.0, 0.01, 1e-4}) {
    const auto gradient = gradients(norm, tensors(Tensor::full({1, 5}, size, float16)),
                                    tensors(Tensor::full({1}, 1, float32)), options);
    expect_close(gradient[0], std::vector<double>(5, 1 / std::sqrt(5.0)), 2e-3);
  }
}

TEST(Unary, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto inputs = tensors(random_tensor({100003}, bfloat16, 1, -4, 4));
  const auto graph = [](const auto& x) {
    return std::vector{ops::tanh(x[0]), ops::gelu(x[0]), ops::exp(x[0])};
  };
  const auto one = run(graph, inputs, {.threads = 1});
  for (const int threads : {2, 4}) {
    const auto many = run(graph, inputs, {.threads = threads});
    for (std::size_t i = 0; i < one.size(); ++i) expect_identical(many[i], one[i]);
  }
}

// ---- Gradients ------------------------------------------------------------------------------

TEST(Unary, HasTheGradientsOfFiniteDifferences) {
  for (const UnaryOp& op : kOps) {
    SCOPED_TRACE(op.name);
    if (op.function == &ops::sign) continue;
    const double low = op.low == 0 ? 0.1 : op.low;
    expect_gradients([&](const auto& x) { return std::vector{op.function(x[0])}; },
                     tensors(random_tensor({4, 5}, float64, 3, low, op.high)));
  }
}

TEST(Unary, HasGradientZeroAtTheKinks) {
  for (const DType dtype : {float32, float16}) {
    const auto inputs = tensors(Tensor::from(std::vector<double>{0, -1, 2}, {3}).to(dtype));
    const auto weights = tensors(Tensor::full({3}, 1, dtype), Tensor::full({3}, 1, dtype));
    const auto relu =
        gradients([](const auto& x) { return std::vector{ops::relu(x[0])}; }, inputs, weights);
    EXPECT_EQ(to_doubles(relu[0]), (std::vector<double>{0, 0, 1}));
    const auto abs =
        gradients([](const auto& x) { return std::vector{ops::abs(x[0])}; }, inputs, weights);
    EXPECT_EQ(to_doubles(abs[0]), (std::vector<double>{0, -1, 1}));
  }
}

TEST(Unary, StopsTheGradientAtSign) {
  const auto inputs = tensors(Tensor::full({2}, 3, float32));
  const auto weights = tensors(Tensor::full({2}, 1, float32));
  const auto gradient =
      gradients([](const auto& x) { return std::vector{ops::sign(x[0])}; }, inputs, weights);
  EXPECT_EQ(to_doubles(gradient[0]), (std::vector<double>{0, 0}));
}

TEST(Unary, GivesGradientsOfTheDtypeOfTheInput) {
  for (const UnaryOp& op : kOps) {
    if (op.function == &ops::sign) continue;
    const auto inputs = tensors(random_tensor({8}, float16, 1, 0.5, 1));
    const DType result = op.wide ? float32 : float16;
    const auto weights = tensors(Tensor::full({8}, 1, result));
    const auto gradient =
        gradients([&](const auto& x) { return std::vector{op.function(x[0])}; }, inputs, weights);
    EXPECT_EQ(gradient[0].dtype(), float16) << op.name;
  }
}

struct BackwardOp {
  const char* name;
  SymbolicTensor (*function)(const SymbolicTensor&, const SymbolicTensor&);
  double (*slope)(double);
  double low, high;
  double units;
};

const BackwardOp kBackward[] = {
    {"relu_backward", ops::relu_backward, [](double y) { return y > 0 ? 1.0 : 0.0; }, -1, 1, 0},
    {"sigmoid_backward", ops::sigmoid_backward, [](double y) { return y * (1 - y); }, 0, 1, 4},
    {"tanh_backward", ops::tanh_backward, [](double y) { return 1 - y * y; }, -0.9, 0.9, 8},
    {"gelu_backward", ops::gelu_backward,
     [](double x) {
       return normal_cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
     },
     -4, 4, 64},
};

TEST(ActivationBackward, AgreesWithTheReferenceForEveryDtype) {
  for (const BackwardOp& op : kBackward) {
    for (const DType dtype : kFloating) {
      const auto inputs = tensors(random_tensor({3000}, dtype, 1, -2, 2),
                                  random_tensor({3000}, dtype, 2, op.low, op.high));
      std::vector<double> expected = map(inputs[1], op.slope);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] *= inputs[0].at(static_cast<std::int64_t>(i));
      }
      const double unit = rounding_unit(is_half(dtype) ? float32 : dtype);
      const double rounding = is_half(dtype) ? 1.001 * rounding_unit(dtype) : 0;
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return op.function(x[0], x[1]); }, inputs,
                                 {.device = device});
        expect_close(y, expected, op.units * unit + rounding, 0.1, op.name);
      }
    }
  }
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

TEST(Unary, KeepsUnknownBatches) {
  for (const UnaryOp& op : kOps) {
    EXPECT_EQ(op.function(input(float32, {Shape::kUnknown, 2})).shape(),
              (Shape{Shape::kUnknown, 2}));
  }
}

TEST(Unary, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal([] { return ops::exp(input(int32, {3})); }),
            "[exp] expected one floating value. Received: int32[3].");
  EXPECT_EQ(refusal([] { return ops::relu(input(boolean, {3})); }),
            "[relu] expected one value of a number type. Received: bool[3].");
  EXPECT_EQ(refusal([] { return ops::relu_backward(input(float32, {3}), input(float32, {4})); }),
            "[relu_backward] expected two floating values of one shape. Received: float32[3] and "
            "float32[4].");
}

}  // namespace
}  // namespace demi
