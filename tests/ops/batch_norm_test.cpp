#include <demi/ops/batch_norm.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <demi/ops/cast.h>
#include <demi/ops/unary.h>

#include "src/ir/emit.h"
#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using ops::Activation;
using ops::BatchNormAttributes;
using testing::expect_close;
using testing::expect_gradients;
using testing::expect_identical;
using testing::GraphFunction;
using testing::message_of;
using testing::random_tensor;
using testing::rounding_unit;
using testing::to_doubles;

constexpr DType kFloatingTypes[] = {float32, float64, float16, bfloat16};
constexpr double kEpsilon = 1e-3;

DType statistics_dtype(DType dtype) {
  return dtype == float64 ? float64 : float32;
}

/// x, gamma, beta.
std::vector<Tensor> train_inputs(const Shape& x, DType dtype) {
  const DType wide = statistics_dtype(dtype);
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(x, dtype, 1, -2, 3));
  inputs.push_back(random_tensor({x[-1]}, wide, 2, 0.5, 1.5));
  inputs.push_back(random_tensor({x[-1]}, wide, 3));
  return inputs;
}

/// x, gamma, beta, mean, variance.
std::vector<Tensor> inference_inputs(const Shape& x, DType dtype) {
  std::vector<Tensor> inputs = train_inputs(x, dtype);
  inputs.push_back(random_tensor({x[-1]}, statistics_dtype(dtype), 4));
  inputs.push_back(random_tensor({x[-1]}, statistics_dtype(dtype), 5, 0.1, 2));
  return inputs;
}

GraphFunction train(double epsilon = kEpsilon) {
  return [epsilon](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    const auto result = ops::batch_norm_train(x[0], x[1], x[2], epsilon);
    return {result.y, result.mean, result.variance};
  };
}

GraphFunction train_y() {
  return [](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::batch_norm_train(x[0], x[1], x[2], kEpsilon).y};
  };
}

GraphFunction inference(double epsilon = kEpsilon) {
  return [epsilon](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::batch_norm_inference(x[0], x[1], x[2], x[3], x[4], epsilon)};
  };
}

/// The first output of an op with relu set, as the fuse pass writes it.
GraphFunction with_relu(const char* op) {
  return [op](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ir::emit(op, x, BatchNormAttributes{kEpsilon, Activation::kRelu})};
  };
}

struct Statistics {
  std::vector<double> mean, variance;
};

/// Sums of the terms of each channel, better than float64.
template <class Term>
std::vector<double> channel_sums(std::size_t count, std::size_t channels, Term&& term) {
  std::vector<long double> sums(channels);
  for (std::size_t i = 0; i < count; ++i) sums[i % channels] += term(i);
  return {sums.begin(), sums.end()};
}

Statistics statistics_of(const Tensor& x) {
  const auto channels = static_cast<std::size_t>(x.shape()[-1]);
  const std::vector<double> values = to_doubles(x);
  const double rows = static_cast<double>(values.size()) / static_cast<double>(channels);
  if (values.empty()) return {std::vector<double>(channels), std::vector<double>(channels)};
  Statistics s;
  s.mean = channel_sums(values.size(), channels, [&](std::size_t i) { return values[i] / rows; });
  s.variance = channel_sums(values.size(), channels, [&](std::size_t i) {
    const double deviation = values[i] - s.mean[i % channels];
    return deviation * deviation / rows;
  });
  return s;
}

std::vector<double> normalized(const std::vector<Tensor>& inputs, const Statistics& s,
                               bool relu = false, double epsilon = kEpsilon) {
  std::vector<double> values = to_doubles(inputs[0]);
  const std::vector<double> gamma = to_doubles(inputs[1]), beta = to_doubles(inputs[2]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t c = i % gamma.size();
    values[i] = (values[i] - s.mean[c]) / std::sqrt(s.variance[c] + epsilon) * gamma[c] + beta[c];
    if (relu) values[i] = std::max(values[i], 0.0);
  }
  return values;
}

struct Gradients {
  std::vector<double> x, gamma, beta;
};

/// By the definition, for statistics of the batch or frozen ones.
Gradients backward(const std::vector<Tensor>& inputs, const std::vector<double>& dy,
                   const Statistics& s, bool frozen) {
  const std::vector<double> x = to_doubles(inputs[0]), gamma = to_doubles(inputs[1]);
  const std::size_t channels = gamma.size();
  const double rows = static_cast<double>(x.size()) / static_cast<double>(channels);
  const auto inv_std = [&](std::size_t c) { return 1 / std::sqrt(s.variance[c] + kEpsilon); };
  const auto x_hat = [&](std::size_t i) {
    return (x[i] - s.mean[i % channels]) * inv_std(i % channels);
  };
  Gradients g;
  g.beta = channel_sums(x.size(), channels, [&](std::size_t i) { return dy[i]; });
  g.gamma = channel_sums(x.size(), channels, [&](std::size_t i) { return dy[i] * x_hat(i); });
  g.x.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % channels;
    const double through_statistics = (g.beta[c] + x_hat(i) * g.gamma[c]) / rows;
    g.x[i] = gamma[c] * inv_std(c) * (dy[i] - (frozen ? 0 : through_statistics));
  }
  return g;
}

/// Rounding on store, and what the float32 (float64) arithmetic before may lose.
double tolerance(DType stored) {
  return rounding_unit(stored) + 64 * rounding_unit(statistics_dtype(stored));
}

/// One channel, few, odd, a vector's worth, many; one row; one pixel; rank 2; more than one chunk
/// (of 16384 elements) with an incomplete group of rows at the end.
const Shape kShapes[] = {{2, 3, 3, 1}, {5, 1, 1, 3},   {1, 35},        {7, 35},    {4, 2, 3, 8},
                         {9, 130},     {3, 41, 37, 5}, {2, 97, 91, 1}, {2600, 16}, {0, 4, 4, 3}};

TEST(BatchNorm, TrainNormalizesEachChannelInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Shape& shape : kShapes) {
        const std::string what = std::string(to_string(dtype)) + shape.to_string();
        const std::vector<Tensor> inputs = train_inputs(shape, dtype);
        const auto results = testing::run(train(), inputs, {.device = device});
        const Statistics expected = statistics_of(inputs[0]);
        EXPECT_EQ(results[0].dtype(), dtype);
        EXPECT_EQ(results[1].dtype(), statistics_dtype(dtype));
        EXPECT_EQ(results[2].dtype(), statistics_dtype(dtype));
        const double sums = 8 * rounding_unit(statistics_dtype(dtype));
        expect_close(results[1], expected.mean, sums, 1.0, what + " mean");
        expect_close(results[2], expected.variance, sums, 1.0, what + " variance");
        expect_close(results[0], normalized(inputs, expected), tolerance(dtype), 1.0, what);
      }
    }
  }
}

TEST(BatchNorm, InferenceUsesTheGivenStatisticsInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Shape& shape : kShapes) {
        const std::vector<Tensor> inputs = inference_inputs(shape, dtype);
        const Statistics given{to_doubles(inputs[3]), to_doubles(inputs[4])};
        const auto y = testing::run(inference(), inputs, {.device = device});
        EXPECT_EQ(y[0].dtype(), dtype);
        expect_close(y[0], normalized(inputs, given), tolerance(dtype), 1.0, shape.to_string());
      }
    }
  }
}

void expect_backward(const GraphFunction& function, const std::vector<Tensor>& inputs,
                     const Statistics& statistics, bool frozen, const std::string& device) {
  const DType dtype = inputs[0].dtype();
  std::vector<Tensor> dy;
  dy.push_back(random_tensor(inputs[0].shape(), dtype, 6));
  const auto computed = testing::gradients(function, inputs, dy, {.device = device});
  const Gradients expected = backward(inputs, to_doubles(dy[0]), statistics, frozen);
  const std::string what = std::string(to_string(dtype)) + inputs[0].shape().to_string();
  EXPECT_EQ(computed[0].dtype(), dtype);
  EXPECT_EQ(computed[1].dtype(), statistics_dtype(dtype));
  EXPECT_EQ(computed[2].dtype(), statistics_dtype(dtype));
  // A gradient through few rows is a small difference of large terms.
  const double scale = frozen ? 4.0 : 40.0;
  expect_close(computed[0], expected.x, tolerance(dtype), scale, what + " dx");
  const double sums = 32 * rounding_unit(statistics_dtype(dtype));
  expect_close(computed[1], expected.gamma, sums, 40.0, what + " dgamma");
  expect_close(computed[2], expected.beta, sums, 40.0, what + " dbeta");
}

TEST(BatchNorm, BackwardIsTheDefinitionInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Shape& shape : kShapes) {
        const std::vector<Tensor> inputs = train_inputs(shape, dtype);
        expect_backward(train_y(), inputs, statistics_of(inputs[0]), false, device);
      }
    }
  }
}

TEST(BatchNorm, FrozenBackwardIsTheDefinitionInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Shape& shape : kShapes) {
        const std::vector<Tensor> inputs = inference_inputs(shape, dtype);
        const Statistics given{to_doubles(inputs[3]), to_doubles(inputs[4])};
        expect_backward(inference(), inputs, given, true, device);
      }
    }
  }
}

TEST(BatchNorm, GradientsAgreeWithFiniteDifferences) {
  expect_gradients(train_y(), train_inputs({3, 2, 2, 3}, float64), 1e-5);
  const std::vector<Tensor> inputs = inference_inputs({4, 5}, float64);
  std::vector<Tensor> differentiated;
  for (std::size_t i = 0; i < 3; ++i) differentiated.push_back(inputs[i].clone());
  // mean and variance are given, not differentiated: integers take no gradient.
  differentiated.push_back(Tensor::from<std::int32_t>({1, 0, -1, 2, 0}, {5}));
  differentiated.push_back(Tensor::from<std::int32_t>({1, 2, 3, 1, 1}, {5}));
  expect_gradients(
      [](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
        return {ops::batch_norm_inference(x[0], x[1], x[2], ops::cast(x[3], float64),
                                          ops::cast(x[4], float64), kEpsilon)};
      },
      differentiated, 1e-5);
}

TEST(BatchNorm, FusedReluRoundsOnceAndMasksTheGradient) {
  for (const DType dtype : kFloatingTypes) {
    for (const Shape& shape : {Shape{4, 3, 3, 3}, Shape{30, 16}}) {
      const std::vector<Tensor> inputs = inference_inputs(shape, dtype);
      std::vector<Tensor> trained;
      for (std::size_t i = 0; i < 3; ++i) trained.push_back(inputs[i].clone());
      std::vector<Tensor> dy;
      dy.push_back(random_tensor(shape, dtype, 7));
      for (const bool frozen : {false, true}) {
        const GraphFunction function =
            with_relu(frozen ? "batch_norm_inference" : "batch_norm_train");
        const std::vector<Tensor>& arguments = frozen ? inputs : trained;
        const Statistics s = frozen ? Statistics{to_doubles(inputs[3]), to_doubles(inputs[4])}
                                    : statistics_of(inputs[0]);
        const Tensor y = std::move(testing::run(function, arguments)[0]);
        expect_close(y, normalized(inputs, s, true), tolerance(dtype));
        std::vector<double> masked = to_doubles(dy[0]);
        for (std::int64_t i = 0; i < y.elements(); ++i) {
          if (!(y.at(i) > 0)) masked[static_cast<std::size_t>(i)] = 0;
        }
        const auto dx = testing::gradients(function, arguments, dy);
        expect_close(dx[0], backward(inputs, masked, s, frozen).x, tolerance(dtype), 4.0);
      }
    }
  }
}

TEST(BatchNorm, FusingAReluChangesNoBit) {
  const GraphFunction function =
      [](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::relu(ops::batch_norm_train(x[0], x[1], x[2], kEpsilon).y)};
  };
  testing::RunOptions plain, fused;
  fused.fuse = true;
  for (const DType dtype : kFloatingTypes) {
    const std::vector<Tensor> inputs = train_inputs({5, 4, 4, 12}, dtype);
    std::vector<Tensor> dy;
    dy.push_back(random_tensor(inputs[0].shape(), dtype, 12));
    expect_identical(testing::run(function, inputs, fused)[0],
                     testing::run(function, inputs, plain)[0]);
    const auto expected = testing::gradients(function, inputs, dy, plain);
    const auto actual = testing::gradients(function, inputs, dy, fused);
    for (std::size_t i = 0; i < 3; ++i) expect_identical(actual[i], expected[i]);
  }
  const std::string text =
      testing::printed_graph(function, {{{4, 3}, float16}, {{3}, float32}, {{3}, float32}}, fused);
  EXPECT_EQ(text.find("relu("), std::string::npos) << text;
}

TEST(BatchNorm, LargeMeansInFloat16AreNormalized) {
  for (const Shape& shape : {Shape{64, 8, 8, 3}, Shape{500, 64}}) {
    std::vector<Tensor> inputs = train_inputs(shape, float16);
    inputs[0] = random_tensor(shape, float16, 8, 990, 1010);
    inputs[1] = Tensor::full({shape[-1]}, 1, float32);
    inputs[2] = Tensor::full({shape[-1]}, 0, float32);
    const auto results = testing::run(train(), inputs);
    const Statistics of_y = statistics_of(results[0]);
    for (std::size_t c = 0; c < of_y.mean.size(); ++c) {
      EXPECT_NEAR(of_y.mean[c], 0, 1e-2);
      EXPECT_NEAR(of_y.variance[c], 1, 1e-2);
    }
    expect_close(results[0], normalized(inputs, statistics_of(inputs[0])), 2 * tolerance(float16));
  }
}

TEST(BatchNorm, OneOutlyingRowDoesNotSpoilTheVariance) {
  // Sums shifted by the first row would lose the variance of all the others.
  Tensor x = random_tensor({4000, 3}, float32, 9, 9999, 10001);
  for (std::size_t c = 0; c < 3; ++c) x.data<float>()[c] = 0;
  std::vector<Tensor> inputs = train_inputs({4000, 3}, float32);
  const Statistics expected = statistics_of(x);
  inputs[0] = std::move(x);
  const auto results = testing::run(train(), inputs);
  expect_close(results[1], expected.mean, 1e-7);
  expect_close(results[2], expected.variance, 1e-6);
}

TEST(BatchNorm, AConstantInputWithTinyEpsilonGivesBeta) {
  for (const DType dtype : {float16, float32}) {
    for (const double value : {0.0, 0.1, 1000.0}) {
      std::vector<Tensor> inputs = train_inputs({300, 3}, dtype);
      inputs[0] = Tensor::full({300, 3}, value, dtype);
      const auto results = testing::run(train(1e-12), inputs);
      const std::vector<double> beta = to_doubles(inputs[2].to(dtype));
      std::vector<double> expected;
      for (std::size_t i = 0; i < 900; ++i) expected.push_back(beta[i % 3]);
      expect_close(results[0], expected, 0);
      std::vector<Tensor> dy;
      dy.push_back(Tensor::full({300, 3}, 1e-3, dtype));
      const auto dx = testing::gradients(train_y(), inputs, dy);
      for (const double gradient : to_doubles(dx[0])) EXPECT_TRUE(std::isfinite(gradient));
    }
  }
}

TEST(BatchNorm, SquaresBeyondFloat16StayFinite) {
  std::vector<Tensor> inputs = train_inputs({512, 5}, float16);
  inputs[0] = random_tensor({512, 5}, float16, 10, -60000, 60000);
  const auto results = testing::run(train(), inputs);
  expect_close(results[0], normalized(inputs, statistics_of(inputs[0])), 2 * tolerance(float16));
}

TEST(BatchNorm, ANonFiniteValueShowsInTheStatisticsOfItsChannelOnly) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<Tensor> inputs = train_inputs({100, 3}, float16);
    inputs[0].data<Float16>()[3 * 57 + 1] = Float16(bad);
    const auto results = testing::run(train(), inputs);
    EXPECT_FALSE(std::isfinite(results[1].at(1)));
    EXPECT_FALSE(std::isfinite(results[2].at(1)));
    for (const std::int64_t other : {0, 2}) {
      EXPECT_TRUE(std::isfinite(results[1].at(other)));
      EXPECT_TRUE(std::isfinite(results[2].at(other)));
    }
  }
}

TEST(BatchNorm, TakesALargeInferenceBatch) {
  const std::vector<Tensor> inputs = inference_inputs({65536, 2, 1, 3}, float16);
  const Statistics given{to_doubles(inputs[3]), to_doubles(inputs[4])};
  expect_close(testing::run(inference(), inputs)[0], normalized(inputs, given), tolerance(float16));
}

TEST(BatchNorm, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const Shape& shape : {Shape{8, 50, 50, 3}, Shape{3000, 64}, Shape{300, 515}}) {
    for (const DType dtype : {float32, float16}) {
      const std::vector<Tensor> inputs = train_inputs(shape, dtype);
      std::vector<Tensor> dy;
      dy.push_back(random_tensor(shape, dtype, 11));
      const auto y = testing::run(train(), inputs, {.threads = 1});
      const auto dx = testing::gradients(train_y(), inputs, dy, {.threads = 1});
      for (const int threads : {2, 4}) {
        const auto other_y = testing::run(train(), inputs, {.threads = threads});
        const auto other_dx = testing::gradients(train_y(), inputs, dy, {.threads = threads});
        for (std::size_t i = 0; i < 3; ++i) {
          expect_identical(other_y[i], y[i]);
          expect_identical(other_dx[i], dx[i]);
        }
      }
    }
  }
}

TEST(BatchNorm, AutocastRunsXLowAndParametersWide) {
  const auto types = [](DType x) {
    return std::vector<TensorType>{{{4, 3}, x}, {{3}, float32}, {{3}, float32}};
  };
  const std::string text =
      testing::printed_graph(train(), types(float32), {.compute_dtype = float16});
  EXPECT_NE(text.find("batch_norm_train(%7, %1, %2) {epsilon=0.001} : float16[4, 3], float32[3], "
                      "float32[3], float32[3]"),
            std::string::npos)
      << text;
}

SymbolicTensor input(const std::shared_ptr<ir::Graph>& graph, DType dtype, const Shape& shape) {
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

TEST(BatchNorm, KeepsAnUnknownBatch) {
  const auto graph = ir::Graph::create();
  const SymbolicTensor x = input(graph, float16, {Shape::kUnknown, 4, 4, 3});
  const SymbolicTensor c = input(graph, float32, {3});
  const auto result = ops::batch_norm_train(x, c, c, kEpsilon);
  EXPECT_EQ(result.y.shape(), x.shape());
  EXPECT_EQ(result.variance.shape(), (Shape{3}));
}

TEST(BatchNorm, SaysWhatDoesNotFit) {
  using std::invalid_argument;
  const auto graph = ir::Graph::create();
  const SymbolicTensor x = input(graph, float32, {2, 4});
  const SymbolicTensor c = input(graph, float32, {3});
  EXPECT_EQ(message_of<invalid_argument>([&] { (void)ops::batch_norm_train(x, c, c, kEpsilon); }),
            "[batch_norm_train] expected floating parameters [4], one value a channel. Received: "
            "float32[2, 4], float32[3] and float32[3].");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              (void)ops::batch_norm_inference(input(graph, uint8, {2, 3}), c, c, c, c, kEpsilon);
            }),
            "[batch_norm_inference] expected a floating input [..., C] with known channels. "
            "Received: uint8[2, 3].");
  EXPECT_EQ(message_of<invalid_argument>([&] { (void)ops::batch_norm_train(x, c, c, -1); }),
            "[batch_norm_train] expected a finite epsilon of at least 0. Received: -1.");
}

}  // namespace
}  // namespace demi
