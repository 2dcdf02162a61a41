#include <demi/ops/softmax.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::SoftmaxAttributes;
using testing::message_of;
using testing::run_kernel;

constexpr DType kFloats[] = {float32, float64, float16, bfloat16};

Tensor normal(const Shape& shape, DType dtype, double scale, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> draw(0, scale);
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (double& value : values) value = draw(engine);
  return Tensor::from(values, shape).to(dtype);
}

using Rows = std::vector<double>;
/// Result row from the rows of the inputs.
using Reference = std::function<Rows(const std::vector<Rows>&)>;

std::vector<double> apply_along(int axis, const std::vector<const Tensor*>& inputs,
                                const Reference& reference) {
  const Shape& shape = inputs[0]->shape();
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t count = shape[axis];
  std::vector<double> result(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto index = [&](std::int64_t k) { return (o * count + k) * inner + i; };
      std::vector<Rows> rows;
      for (const Tensor* input : inputs) {
        rows.emplace_back();
        for (std::int64_t k = 0; k < count; ++k) rows.back().push_back(input->at(index(k)));
      }
      const Rows row = reference(rows);
      for (std::int64_t k = 0; k < count; ++k) {
        result[static_cast<std::size_t>(index(k))] = row[static_cast<std::size_t>(k)];
      }
    }
  }
  return result;
}

Rows softmax_of(const Rows& x) {
  if (x.empty()) return {};
  const double largest = *std::max_element(x.begin(), x.end());
  Rows y;
  double sum = 0;
  for (const double value : x) sum += std::exp(value - largest);
  for (const double value : x) y.push_back(std::exp(value - largest) / sum);
  return y;
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  for (std::int64_t i = 0; i < actual.elements(); ++i) {
    const double want = expected[static_cast<std::size_t>(i)];
    ASSERT_NEAR(actual.at(i), want, tolerance * std::max(1.0, std::abs(want))) << "element " << i;
  }
}

double tolerance_of(DType dtype) {
  if (dtype == float64) return 1e-14;
  return dtype == float32 ? 2e-6 : dtype == float16 ? 1e-3 : 8e-3;
}

struct Case {
  Shape shape;
  int axis;
};
const Case kCases[] = {{{3, 10}, 1},    {{128, 10}, -1}, {{5, 1}, 1},     {{2, 9000}, 1},
                       {{4, 7, 3}, 1},  {{6, 35}, 0},    {{2, 3, 70}, 1}, {{0, 4}, 1},
                       {{1000, 17}, 1}, {{7}, 0},        {{3, 0, 2}, 1},  {{2, 5, 5000}, 1}};

TEST(Softmax, AgreesWithTheReferenceForEveryDtypeAxisAndStore) {
  for (const Case& c : kCases) {
    const int axis = c.shape.normalize_axis(c.axis);
    for (const DType dtype : kFloats) {
      const TensorType type{c.shape, dtype};
      SCOPED_TRACE(type.to_string());
      const Tensor x = normal(c.shape, dtype, 4, 1);
      const std::vector<double> expected =
          apply_along(axis, {&x}, [](const std::vector<Rows>& in) { return softmax_of(in[0]); });
      const Tensor y = std::move(run_kernel("softmax", SoftmaxAttributes{c.axis}, {&x})[0]);
      EXPECT_EQ(y.dtype(), accumulation_dtype(dtype));
      expect_near(y, expected, dtype == float64 ? 1e-14 : 2e-6);
      const Tensor stored =
          std::move(run_kernel("softmax", SoftmaxAttributes{c.axis}, {&x}, {.store = float16})[0]);
      EXPECT_EQ(stored.dtype(), float16);
      expect_near(stored, expected, 1e-3);
    }
  }
}

TEST(LogSoftmax, AgreesWithTheReference) {
  for (const Case& c : kCases) {
    for (const DType dtype : kFloats) {
      const TensorType type{c.shape, dtype};
      SCOPED_TRACE(type.to_string());
      const Tensor x = normal(c.shape, dtype, 4, 2);
      const std::vector<double> expected =
          apply_along(c.shape.normalize_axis(c.axis), {&x}, [](const std::vector<Rows>& in) {
            Rows y = softmax_of(in[0]);
            for (double& value : y) value = std::log(value);
            return y;
          });
      expect_near(run_kernel("log_softmax", SoftmaxAttributes{c.axis}, {&x})[0], expected,
                  dtype == float64 ? 1e-13 : 2e-6);
    }
  }
}

TEST(Softmax, GradientsAgreeWithTheReference) {
  for (const Case& c : kCases) {
    const int axis = c.shape.normalize_axis(c.axis);
    for (const DType dtype : kFloats) {
      const TensorType type{c.shape, dtype};
      SCOPED_TRACE(type.to_string());
      const Tensor dy = normal(c.shape, dtype, 1, 3);
      const Tensor x = normal(c.shape, float64, 2, 4);
      const Tensor y =
          std::move(run_kernel("softmax", SoftmaxAttributes{c.axis}, {&x})[0]).to(dtype);
      const Tensor log_y =
          std::move(run_kernel("log_softmax", SoftmaxAttributes{c.axis}, {&x})[0]).to(dtype);
      expect_near(
          run_kernel("softmax_backward", SoftmaxAttributes{c.axis}, {&dy, &y}, {.store = dtype})[0],
          apply_along(axis, {&dy, &y},
                      [](const std::vector<Rows>& in) {
                        double dot = 0;
                        Rows dx;
                        for (std::size_t i = 0; i < in[0].size(); ++i) dot += in[0][i] * in[1][i];
                        for (std::size_t i = 0; i < in[0].size(); ++i) {
                          dx.push_back(in[1][i] * (in[0][i] - dot));
                        }
                        return dx;
                      }),
          tolerance_of(dtype));
      expect_near(run_kernel("log_softmax_backward", SoftmaxAttributes{c.axis}, {&dy, &log_y},
                             {.store = dtype})[0],
                  apply_along(axis, {&dy, &log_y},
                              [](const std::vector<Rows>& in) {
                                double sum = 0;
                                Rows dx;
                                for (const double value : in[0]) sum += value;
                                for (std::size_t i = 0; i < in[0].size(); ++i) {
                                  dx.push_back(in[0][i] - std::exp(in[1][i]) * sum);
                                }
                                return dx;
                              }),
                  std::max(tolerance_of(dtype), 5e-5));
    }
  }
}

TEST(Softmax, FunctionsHaveRightGradients) {
  for (const int axis : {0, 1, 2}) {
    std::vector<Tensor> inputs;
    inputs.push_back(testing::random_tensor({3, 4, 5}, float64, 6, -3, 3));
    testing::expect_gradients(
        [axis](const std::vector<SymbolicTensor>& in) -> std::vector<SymbolicTensor> {
          return {ops::softmax(in[0], axis), ops::log_softmax(in[0], axis)};
        },
        inputs);
  }
}

TEST(Softmax, SurvivesLargeInfiniteAndNanInputs) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from(
      std::vector<float>{1e30f, -1e30f, 1e30f, -kInf, -kInf, -kInf, 1, NAN, 2, -kInf, 0, 0},
      {4, 3});
  const Tensor y = std::move(run_kernel("softmax", SoftmaxAttributes{}, {&x})[0]);
  const float expected[] = {0.5f, 0, 0.5f, 0, 0, 0, NAN, NAN, NAN, 0, 0.5f, 0.5f};
  for (std::int64_t i = 0; i < 12; ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(y.at(i))) << i;
    } else {
      EXPECT_EQ(y.at(i), expected[i]) << i;
    }
  }
  const Tensor log_y = std::move(run_kernel("log_softmax", SoftmaxAttributes{}, {&x})[0]);
  EXPECT_EQ(log_y.at(3), -kInf);
  EXPECT_NEAR(log_y.at(0), -std::log(2.0), 1e-6);
}

TEST(Softmax, GivesTheSameBitsForAnyThreadCount) {
  const Tensor x = normal({700, 33}, float16, 3, 5);
  const Tensor one = std::move(run_kernel("softmax", SoftmaxAttributes{}, {&x}, {.threads = 1})[0]);
  const Tensor four =
      std::move(run_kernel("softmax", SoftmaxAttributes{}, {&x}, {.threads = 4})[0]);
  for (std::int64_t i = 0; i < one.elements(); ++i) ASSERT_EQ(one.at(i), four.at(i));
}

TEST(Softmax, RefusesIntegersAndAbsentAxes) {
  const auto graph = ir::Graph::create();
  const auto x = graph->tensor(graph->add_input("x", {{2, 3}, int32}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)ops::softmax(x); }),
            "[softmax] expected a floating tensor that has axis -1. Received: int32[2, 3].");
  const auto y = graph->tensor(graph->add_input("y", {{2, 3}, float32}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)ops::log_softmax(y, 2); }),
            "[log_softmax] expected a floating tensor that has axis 2. Received: float32[2, 3].");
}

}  // namespace
}  // namespace demi
