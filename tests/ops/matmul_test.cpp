#include <demi/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <demi/ops/cast.h>

#include "src/ir/emit.h"
#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using ops::MatmulAttributes;
using testing::expect_close;
using testing::expect_gradients;
using testing::expect_identical;
using testing::GraphFunction;
using testing::message_of;
using testing::random_tensor;
using testing::rounding_unit;
using testing::RunOptions;
using testing::to_doubles;

constexpr DType kFloatingTypes[] = {float32, float64, float16, bfloat16};

struct Sizes {
  std::int64_t m, n, k;
};

Shape a_shape(const Sizes& s, bool transposed) {
  return transposed ? Shape{s.k, s.m} : Shape{s.m, s.k};
}
Shape b_shape(const Sizes& s, bool transposed) {
  return transposed ? Shape{s.n, s.k} : Shape{s.k, s.n};
}

std::vector<double> reference(const Tensor& a, const Tensor& b, const Sizes& s,
                              const MatmulAttributes& attributes, const Tensor* bias = nullptr) {
  const std::vector<double> av = to_doubles(a), bv = to_doubles(b);
  const std::vector<double> biases = bias != nullptr ? to_doubles(*bias) : std::vector<double>();
  std::vector<double> y;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = bias != nullptr ? biases[static_cast<std::size_t>(j)] : 0.0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += av[static_cast<std::size_t>(attributes.transpose_a ? k * s.m + i : i * s.k + k)] *
               bv[static_cast<std::size_t>(attributes.transpose_b ? j * s.k + k : k * s.n + j)];
      }
      y.push_back(attributes.activation == ops::Activation::kRelu ? std::max(sum, 0.0) : sum);
    }
  }
  return y;
}

/// One rounding on store, and what float32 (float64) sums of k terms in [-1, 1] may lose.
double tolerance(DType stored, std::int64_t k) {
  const double sums = stored == float64 ? rounding_unit(float64) : rounding_unit(float32);
  return rounding_unit(stored) + sums * static_cast<double>(k + 2);
}

GraphFunction with(const MatmulAttributes& attributes) {
  return [attributes](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ir::emit("matmul", x, attributes)};
  };
}

TEST(Matmul, IsThePlainLoopInEveryDtypeAndTransposition) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Sizes& s :
           {Sizes{1, 1, 1}, Sizes{3, 5, 7}, Sizes{35, 10, 129}, Sizes{64, 33, 40}}) {
        for (const bool ta : {false, true}) {
          for (const bool tb : {false, true}) {
            const Tensor a = random_tensor(a_shape(s, ta), dtype, 1);
            const Tensor b = random_tensor(b_shape(s, tb), dtype, 2);
            const MatmulAttributes attributes{.transpose_a = ta, .transpose_b = tb};
            std::vector<Tensor> inputs;
            inputs.push_back(a.clone());
            inputs.push_back(b.clone());
            const Tensor y =
                std::move(testing::run(with(attributes), inputs, {.device = device})[0]);
            EXPECT_EQ(y.dtype(), dtype);
            EXPECT_EQ(y.shape(), (Shape{s.m, s.n}));
            expect_close(y, reference(a, b, s, attributes), tolerance(dtype, s.k), 1.0,
                         std::string(to_string(dtype)) + " " + ops::describe(attributes));
          }
        }
      }
    }
  }
}

TEST(Matmul, GradientsAgreeWithFiniteDifferences) {
  const Sizes s{3, 4, 5};
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      std::vector<Tensor> inputs;
      inputs.push_back(random_tensor(a_shape(s, ta), float64, 3));
      inputs.push_back(random_tensor(b_shape(s, tb), float64, 4));
      expect_gradients(with({.transpose_a = ta, .transpose_b = tb}), inputs);
    }
  }
}

TEST(Matmul, HalfPrecisionGradientsHaveTheDtypeOfTheirInputs) {
  const Sizes s{8, 3, 6};
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor({s.m, s.k}, float16, 5));
  inputs.push_back(random_tensor({s.k, s.n}, float32, 6));
  std::vector<Tensor> dy;
  dy.push_back(random_tensor({s.m, s.n}, float16, 7));
  const auto gradients = testing::gradients(with({}), inputs, dy, {.compute_dtype = float16});
  EXPECT_EQ(gradients[0].dtype(), float16);
  EXPECT_EQ(gradients[1].dtype(), float32);
  const Tensor w16 = inputs[1].to(float16);
  expect_close(gradients[0], reference(dy[0], w16, {s.m, s.k, s.n}, {.transpose_b = true}),
               tolerance(float16, s.n));
  expect_close(gradients[1], reference(inputs[0], dy[0], {s.k, s.n, s.m}, {.transpose_a = true}),
               tolerance(float16, s.m));
}

TEST(Matmul, FusedBiasAndReluRoundOnce) {
  const Sizes s{19, 35, 24};
  for (const DType dtype : kFloatingTypes) {
    for (const auto activation : {ops::Activation::kNone, ops::Activation::kRelu}) {
      const MatmulAttributes attributes{.has_bias = true, .activation = activation};
      std::vector<Tensor> inputs;
      inputs.push_back(random_tensor({s.m, s.k}, dtype, 8));
      inputs.push_back(random_tensor({s.k, s.n}, dtype, 9));
      inputs.push_back(random_tensor({s.n}, dtype, 10));
      const Tensor y = std::move(testing::run(with(attributes), inputs)[0]);
      expect_close(y, reference(inputs[0], inputs[1], s, attributes, &inputs[2]),
                   tolerance(dtype, s.k), 1.0, std::string(to_string(dtype)));
    }
  }
}

TEST(Matmul, FusedReluKeepsNaN) {
  std::vector<Tensor> inputs;
  inputs.push_back(Tensor::from<float>({NAN, 1}, {2, 1}));
  inputs.push_back(Tensor::from<float>({-1}, {1, 1}));
  const Tensor y = std::move(testing::run(with({.activation = ops::Activation::kRelu}), inputs)[0]);
  EXPECT_TRUE(std::isnan(y.at(0)));
  EXPECT_EQ(y.at(1), 0);
}

TEST(Matmul, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const DType dtype : {float32, float16}) {
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor({150, 300}, dtype, 11));
    inputs.push_back(random_tensor({300, 130}, dtype, 12));
    const Tensor one = std::move(testing::run(with({}), inputs, {.threads = 1})[0]);
    for (const int threads : {2, 4}) {
      expect_identical(testing::run(with({}), inputs, {.threads = threads})[0], one);
    }
  }
}

TEST(Matmul, AccumulatesInFloat32) {
  constexpr std::int64_t kDepth = 8192;
  std::vector<Tensor> inputs;
  inputs.push_back(Tensor({1, kDepth}, float16));
  inputs.push_back(Tensor::full({kDepth, 1}, 1, float16));
  for (std::size_t i = 0; i < kDepth; ++i) {
    inputs[0].data<Float16>()[i] = Float16(i % 2 == 0 ? 32000.0f : -32000.0f);
  }
  EXPECT_EQ(testing::run(with({}), inputs)[0].item(), 0);
  inputs[0] = Tensor::full({1, 4096}, 1, float16);
  inputs[1] = Tensor::full({4096, 1}, 1, float16);
  EXPECT_EQ(testing::run(with({}), inputs)[0].item(), 4096);
}

TEST(Matmul, ACastToFloat32IsStoredWithoutRoundingBefore) {
  const GraphFunction function = [](const std::vector<SymbolicTensor>& x) {
    return std::vector<SymbolicTensor>{ops::cast(ops::matmul(x[0], x[1]), float32)};
  };
  const RunOptions options{.simplify = true};
  const Sizes s{7, 9, 40};
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor({s.m, s.k}, float16, 13));
  inputs.push_back(random_tensor({s.k, s.n}, float16, 14));
  const std::vector<TensorType> types = {{{s.m, s.k}, float16}, {{s.k, s.n}, float16}};
  EXPECT_EQ(testing::printed_graph(function, types, options).find("cast"), std::string::npos);
  const Tensor y = std::move(testing::run(function, inputs, options)[0]);
  EXPECT_EQ(y.dtype(), float32);
  expect_close(y, reference(inputs[0], inputs[1], s, {}), tolerance(float32, s.k));
}

TEST(Matmul, TakesEmptyOperands) {
  std::vector<Tensor> inputs;
  inputs.emplace_back(Shape{0, 3}, float32);
  inputs.push_back(random_tensor({3, 4}, float32, 15));
  EXPECT_EQ(testing::run(with({}), inputs)[0].shape(), (Shape{0, 4}));
  // The weight gradient of an empty batch: a sum of nothing.
  std::vector<Tensor> dy;
  dy.emplace_back(Shape{0, 4}, float32);
  const auto gradients = testing::gradients(with({}), inputs, dy);
  expect_close(gradients[1], std::vector<double>(12, 0.0), 0);
}

SymbolicTensor input(const std::shared_ptr<ir::Graph>& graph, DType dtype, const Shape& shape) {
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

TEST(Matmul, KeepsAnUnknownBatch) {
  const auto graph = ir::Graph::create();
  const SymbolicTensor x = input(graph, float16, {Shape::kUnknown, 3});
  const SymbolicTensor y = ops::matmul(x, input(graph, float32, {3, 4}));
  EXPECT_EQ(y.shape(), (Shape{Shape::kUnknown, 4}));
  EXPECT_EQ(y.dtype(), float32);
  EXPECT_EQ(ops::matmul(x, y, true).shape(), (Shape{3, 4}));
}

TEST(Matmul, SaysWhatDoesNotFit) {
  const auto graph = ir::Graph::create();
  const SymbolicTensor a = input(graph, float32, {2, 3});
  using std::invalid_argument;
  EXPECT_EQ(message_of<invalid_argument>([&] { (void)ops::matmul(a, a); }),
            "[matmul] expected inner extents that agree (transpose_a=false, transpose_b=false). "
            "Received: float32[2, 3] and float32[2, 3].");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              (void)ops::matmul(input(graph, float32, {2, 3, 4}), a);
            }),
            "[matmul] expected two floating matrices (rank 2). Received: float32[2, 3, 4] and "
            "float32[2, 3].");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              (void)ops::matmul(input(graph, int32, {3, 2}), a);
            }),
            "[matmul] expected two floating matrices (rank 2). Received: int32[3, 2] and "
            "float32[2, 3].");
  EXPECT_EQ(message_of<invalid_argument>([&] { (void)ops::matmul(SymbolicTensor(), a); }),
            "[matmul] expected a value. Received: an empty SymbolicTensor.");
}

}  // namespace
}  // namespace demi
