#include <demi/ops/reduction.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

#include <demi/ops/cast.h>
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

struct Case {
  Shape shape;
  std::vector<int> axes;
};

const Case kCases[] = {
    {{50}, {0}},                            // a vector
    {{70000}, {}},                          // more than a segment
    {{300, 10}, {1}},                       // short rows
    {{5, 3000}, {-1}},                      // long rows
    {{3, 40000}, {1}},                      // rows of several segments
    {{300, 10}, {0}},                       // narrow columns
    {{9, 3000}, {0}},                       // wide columns
    {{40000, 3}, {0}},                      // columns of several segments
    {{8, 7, 7, 20}, {1, 2}},                // global pooling
    {{8, 7, 7, 20}, {0, 1, 2}},             // statistics of channels
    {{4, 5, 6, 7}, {0, 2}},                 // alternating
    {{4, 5, 6, 7}, {1, 3}},                 //
    {{4, 5, 6, 7}, {3, 0, 1, 2}},           // everything
    {{3, 1, 4}, {1}},                       // nothing to do
    {{2, 3, 1, 2, 3, 2, 1, 2}, {1, 4, 6}},  // the largest rank
    {{0, 3}, {1}},                          // no outputs
};

std::vector<int> normalized(const Shape& shape, std::vector<int> axes) {
  if (axes.empty()) {
    for (int i = 0; i < shape.rank(); ++i) axes.push_back(i);
  }
  for (int& axis : axes) axis = shape.normalize_axis(axis);
  return axes;
}

/// The elements behind each output, found by walking all index tuples.
std::vector<std::vector<double>> grouped(const Tensor& x, const std::vector<int>& axes) {
  const Shape& shape = x.shape();
  std::int64_t outputs = 1;
  const std::vector<int> reduced = normalized(shape, axes);
  const auto is_reduced = [&](int axis) {
    return std::find(reduced.begin(), reduced.end(), axis) != reduced.end();
  };
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!is_reduced(axis)) outputs *= shape[axis];
  }
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(outputs));
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t rest = i, output = 0, stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      if (!is_reduced(axis)) {
        output += rest % shape[axis] * stride;
        stride *= shape[axis];
      }
      rest /= shape[axis];
    }
    groups[static_cast<std::size_t>(output)].push_back(x.at(i));
  }
  return groups;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

double mean_of(const std::vector<double>& values) {
  return values.empty() ? 0 : sum_of(values) / static_cast<double>(values.size());
}

double max_of(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

std::vector<double> reference(const Tensor& x, const std::vector<int>& axes,
                              double (*reduce)(const std::vector<double>&)) {
  std::vector<double> result;
  for (const std::vector<double>& group : grouped(x, axes)) result.push_back(reduce(group));
  return result;
}

TEST(Reduction, AgreesWithTheReferenceForEveryShapeAndDtype) {
  for (const Case& c : kCases) {
    for (const DType dtype : kFloating) {
      SCOPED_TRACE(c.shape.to_string() + std::string(to_string(dtype)));
      const auto inputs = tensors(random_tensor(c.shape, dtype, 3));
      const DType sum_dtype = is_half(dtype) ? float32 : dtype;
      for (const std::string& device : test_devices()) {
        const auto y = run(
            [&](const auto& x) {
              return std::vector{ops::sum(x[0], c.axes), ops::mean(x[0], c.axes),
                                 ops::max(x[0], c.axes)};
            },
            inputs, {.device = device});
        EXPECT_EQ(y[0].dtype(), sum_dtype);
        EXPECT_EQ(y[1].dtype(), dtype);
        EXPECT_EQ(y[2].dtype(), dtype);
        // The reference, too, is in float64.
        const double unit = dtype == float64 ? 1e-15 : rounding_unit(sum_dtype);
        const double terms = static_cast<double>(
            c.shape.elements() / std::max<std::int64_t>(1, y[0].elements()) + 1);
        expect_close(y[0], reference(inputs[0], c.axes, sum_of), 4 * unit * std::sqrt(terms), 1.0,
                     "sum");
        expect_close(y[1], reference(inputs[0], c.axes, mean_of),
                     4 * unit + (is_half(dtype) ? rounding_unit(dtype) : 0), 1.0, "mean");
        expect_close(y[2], reference(inputs[0], c.axes, max_of), 0, 0, "max");
      }
    }
  }
}

TEST(Reduction, ReducesIntegersExactly) {
  for (const Case& c : kCases) {
    for (const DType dtype : {int32, int64, uint8, boolean}) {
      const auto inputs =
          tensors(random_tensor(c.shape, int32, 3, 0, dtype == boolean ? 2 : 200).to(dtype));
      const auto y = run(
          [&](const auto& x) {
            return std::vector{ops::sum(x[0], c.axes), ops::mean(x[0], c.axes),
                               ops::max(x[0], c.axes)};
          },
          inputs);
      EXPECT_EQ(y[0].dtype(), int64);
      EXPECT_EQ(y[1].dtype(), float32);
      EXPECT_EQ(y[2].dtype(), dtype);
      expect_close(y[0], reference(inputs[0], c.axes, sum_of), 0, 0, "sum");
      expect_close(y[1], reference(inputs[0], c.axes, mean_of), rounding_unit(float32), 0, "mean");
      expect_close(y[2], reference(inputs[0], c.axes, max_of), 0, 0, "max");
    }
  }
}

TEST(Reduction, KeepsDimensionsWhereAsked) {
  const auto inputs = tensors(random_tensor({2, 3, 4}, float32, 1));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::sum(x[0], {1}, true), ops::mean(x[0], {0, -1}, true),
                           ops::max(x[0], {}, true), ops::sum(x[0]), ops::sum(x[0], {1})};
      },
      inputs);
  EXPECT_EQ(y[0].shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(y[1].shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(y[2].shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(y[3].shape(), Shape{});
  EXPECT_EQ(y[4].shape(), (Shape{2, 4}));
}

TEST(Mean, OfAFloat16MapOfOnesIsOne) {
  for (const DType dtype : {float16, bfloat16}) {
    const auto inputs = tensors(Tensor::full({2, 64, 64, 3}, 1, dtype));
    for (const std::string& device : test_devices()) {
      const Tensor y = run_one(
          [](const auto& x) {
            return ops::mean(x[0], {1, 2});
          },
          inputs, {.device = device});
      EXPECT_EQ(to_doubles(y), (std::vector<double>(6, 1.0)));
    }
  }
}

TEST(Mean, DoesNotOverflowFloat16) {
  const auto inputs = tensors(Tensor::full({4096}, 60000, float16));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::mean(x[0]), ops::sum(x[0])};
      },
      inputs);
  EXPECT_EQ(y[0].item(), Tensor::full({}, 60000, float16).item());
  EXPECT_EQ(y[1].item(), 4096 * Tensor::full({}, 60000, float16).item());
}

TEST(Mean, StoresFloat32WhereItIsCastToIt) {
  const auto inputs = tensors(Tensor::from(std::vector<double>{1, 0, 0}, {3}).to(float16));
  const Tensor y = run_one([](const auto& x) { return ops::cast(ops::mean(x[0]), float32); },
                           inputs, {.simplify = true});
  EXPECT_EQ(y.item(), static_cast<double>(1.0f / 3.0f));
}

TEST(Reduction, HasValuesForNothing) {
  const auto inputs = tensors(Tensor({2, 0, 3}, float32));
  const auto y = run(
      [](const auto& x) {
        return std::vector{ops::sum(x[0], {1}), ops::mean(x[0], {1}), ops::sum(x[0], {2})};
      },
      inputs);
  EXPECT_EQ(to_doubles(y[0]), std::vector<double>(6, 0.0));
  EXPECT_EQ(to_doubles(y[1]), std::vector<double>(6, 0.0));
  EXPECT_EQ(y[2].shape(), (Shape{2, 0}));
}

TEST(Reduction, PropagatesNanAndInfinity) {
  for (const DType dtype : kFloating) {
    const Tensor x = Tensor::from(std::vector<double>{1, kNan, 2, kInf, 1, 0, kInf, -kInf, 3, -kInf,
                                                      -kInf, -kInf},
                                  {4, 3})
                         .to(dtype);
    for (const std::string& device : test_devices()) {
      const auto y = run(
          [](const auto& v) {
            return std::vector{ops::sum(v[0], {1}), ops::max(v[0], {1}), ops::max(v[0], {0})};
          },
          tensors(x.clone()), {.device = device});
      expect_close(y[0], {kNan, kInf, kNan, -kInf}, 0, 0, "sum");
      expect_close(y[1], {kNan, kInf, kInf, -kInf}, 0, 0, "max of rows");
      expect_close(y[2], {kInf, kNan, 3}, 0, 0, "max of columns");
    }
  }
}

TEST(Reduction, GivesTheSameBitsForAnyNumberOfThreads) {
  const auto inputs = tensors(random_tensor({64, 28, 28, 10}, float16, 1));
  const auto graph = [](const auto& x) {
    return std::vector{ops::sum(x[0]), ops::mean(x[0], {1, 2}), ops::sum(x[0], {0, 1, 2}),
                       ops::sum(x[0], {3}), ops::max(x[0], {0})};
  };
  const auto one = run(graph, inputs, {.threads = 1});
  for (const int threads : {2, 4}) {
    const auto many = run(graph, inputs, {.threads = threads});
    for (std::size_t i = 0; i < one.size(); ++i) expect_identical(many[i], one[i]);
  }
}

// ---- argmax ---------------------------------------------------------------------------------

TEST(Argmax, FindsTheFirstMaximum) {
  const Case cases[] = {{{50, 10}, {1}},  {{3, 2000}, {1}}, {{20, 700}, {0}},
                        {{4, 9, 5}, {1}}, {{7}, {0}},       {{0, 3}, {1}}};
  for (const Case& c : cases) {
    for (const DType dtype : {float32, float16, bfloat16, float64, int32, uint8}) {
      // Few distinct values, so that there are ties.
      const auto inputs = tensors(random_tensor(c.shape, int32, 1, 0, 50).to(dtype));
      for (const std::string& device : test_devices()) {
        const Tensor y = run_one([&](const auto& x) { return ops::argmax(x[0], c.axes[0]); },
                                 inputs, {.device = device});
        EXPECT_EQ(y.dtype(), int32);
        expect_close(
            y,
            reference(inputs[0], c.axes,
                      [](const std::vector<double>& values) {
                        return static_cast<double>(std::max_element(values.begin(), values.end()) -
                                                   values.begin());
                      }),
            0, 0, c.shape.to_string());
      }
    }
  }
}

TEST(Argmax, TakesTheFirstNan) {
  const auto inputs =
      tensors(Tensor::from(std::vector<double>{1, kNan, kInf, kNan, kNan, 1}, {2, 3}));
  EXPECT_EQ(to_doubles(run_one([](const auto& x) { return ops::argmax(x[0]); }, inputs)),
            (std::vector<double>{1, 0}));
  EXPECT_EQ(to_doubles(run_one([](const auto& x) { return ops::argmax(x[0], 0); }, inputs)),
            (std::vector<double>{1, 0, 0}));
}

// ---- Gradients ------------------------------------------------------------------------------

TEST(Reduction, HasTheGradientsOfFiniteDifferences) {
  const Case cases[] = {
      {{3, 4}, {0}}, {{3, 4}, {1}}, {{3, 4}, {}}, {{2, 3, 4}, {0, 2}}, {{2, 3, 4}, {1}}};
  for (const Case& c : cases) {
    for (const bool keepdims : {false, true}) {
      expect_gradients(
          [&](const auto& x) {
            return std::vector{ops::sum(x[0], c.axes, keepdims), ops::mean(x[0], c.axes, keepdims),
                               ops::max(x[0], c.axes, keepdims)};
          },
          tensors(random_tensor(c.shape, float64, 4)));
    }
  }
}

TEST(Max, SharesTheGradientAmongAllMaxima) {
  for (const DType dtype : {float32, float16}) {
    const auto inputs =
        tensors(Tensor::from(std::vector<double>{3, 1, 3, 2, 5, 4}, {2, 3}).to(dtype));
    const auto weights = tensors(Tensor::from(std::vector<double>{4, 1}, {2}).to(dtype));
    const auto gradient =
        gradients([](const auto& x) { return std::vector{ops::max(x[0], {1})}; }, inputs, weights);
    EXPECT_EQ(gradient[0].dtype(), dtype);
    EXPECT_EQ(to_doubles(gradient[0]), (std::vector<double>{2, 0, 2, 0, 1, 0}));
  }
}

TEST(Mean, HasAGradientOverMoreElementsThanFloat16Counts) {
  const auto inputs = tensors(Tensor({70000}, float16));
  const auto weights = tensors(Tensor::full({}, 7, float16));
  const auto gradient =
      gradients([](const auto& x) { return std::vector{ops::mean(x[0])}; }, inputs, weights);
  EXPECT_EQ(gradient[0].at(0), Tensor::full({}, 1e-4, float16).item());
  EXPECT_EQ(gradient[0].at(69999), Tensor::full({}, 1e-4, float16).item());
}

TEST(Reduction, GivesGradientsOfTheDtypeOfTheInput) {
  const auto inputs = tensors(random_tensor({4, 6}, float16, 1));
  const auto weights = tensors(Tensor::full({4}, 1, float32), Tensor::full({4}, 1, float16));
  const auto gradient = gradients(
      [](const auto& x) {
        return std::vector{ops::sum(x[0], {1}), ops::mean(x[0], {1})};
      },
      inputs, weights);
  EXPECT_EQ(gradient[0].dtype(), float16);
  expect_close(gradient[0], std::vector<double>(24, 1 + 1 / 6.0), rounding_unit(float16) * 2);
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

TEST(Reduction, InfersUnknownBatches) {
  const SymbolicTensor x = input(float16, {Shape::kUnknown, 3, 4});
  EXPECT_EQ(ops::mean(x, {1}).shape(), (Shape{Shape::kUnknown, 4}));
  EXPECT_EQ(ops::max(x, {0}).shape(), (Shape{3, 4}));
  EXPECT_EQ(ops::argmax(x).shape(), (Shape{Shape::kUnknown, 3}));
  EXPECT_EQ(ops::sum(x).shape(), Shape{});
}

TEST(Reduction, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal([] {
              return ops::sum(input(float32, {2, 3}), {2});
            }),
            "[sum] expected axes of a value of shape [2, 3]. Received: [2].");
  EXPECT_EQ(refusal([] {
              return ops::mean(input(float32, {2, 3}), {1, -1});
            }),
            "[mean] expected distinct axes. Received: [1, -1].");
  EXPECT_EQ(refusal([] {
              return ops::max(input(float32, {2, 0}));
            }),
            "[max] expected at least one element along axis 1. Received: float32[2, 0].");
  EXPECT_EQ(refusal([] {
              return ops::argmax(input(float32, {2, 0}));
            }),
            "[argmax] expected at least one element along axis 1. Received: float32[2, 0].");
  EXPECT_EQ(refusal([] { return ops::argmax(input(float32, {})); }),
            "[argmax] expected axes of a value of shape []. Received: [-1].");
}

}  // namespace
}  // namespace demi
