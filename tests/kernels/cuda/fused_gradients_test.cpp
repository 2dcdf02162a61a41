// The CUDA kernels of what only the fuse pass writes, against the parts on the CPU: masks and sums
// that go with a gradient, and the mean cross-entropy of a batch.
#include <cmath>
#include <limits>

#include <demi/ops/cross_entropy.h>
#include <demi/ops/matmul.h>
#include <demi/ops/movement.h>
#include <demi/ops/pooling.h>
#include <demi/ops/reduction.h>
#include <demi/ops/softmax.h>

#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

using testing::expect_close;
using testing::random_tensor;
using testing::rounding_unit;
using testing::run_kernel;
using testing::to_doubles;

class CudaFusedGradients : public testing::CudaKernels {
 protected:
  /// The sums of `x` over all axes but the last, in float64.
  static std::vector<double> channel_sums(const Tensor& x) {
    const std::vector<double> values = to_doubles(x);
    const auto channels = static_cast<std::size_t>(x.shape()[-1]);
    std::vector<double> sums(channels, 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % channels] += values[i];
    return sums;
  }

  static std::string expect_matmul(const ops::MatmulAttributes& attributes, const Tensor& a,
                                   const Tensor& b, const Tensor* mask,
                                   std::optional<DType> store = std::nullopt) {
    ops::MatmulAttributes plain = attributes;
    plain.relu_backward = plain.bias_gradient = false;
    Tensor expected =
        std::move(run_kernel("matmul", plain, {&a, &b}, {.device = "cpu", .store = store})[0]);
    if (mask != nullptr) {
      expected =
          std::move(run_kernel("relu_backward", {}, {&expected, mask}, {.device = "cpu"})[0]);
    }
    std::vector<const Tensor*> inputs = {&a, &b};
    if (mask != nullptr) inputs.push_back(mask);
    std::string name;
    const std::vector<Tensor> actual = run_kernel(
        "matmul", attributes, inputs, {.device = kDevice, .store = store, .selected = &name});
    const double unit = 4 * rounding_unit(expected.dtype());
    expect_close(actual[0], to_doubles(expected), unit, 1.0, name);
    if (attributes.bias_gradient) {
      expect_close(actual[1], channel_sums(b), 1e-5, 1.0, name + " sums");
    }
    return name;
  }
};

TEST_F(CudaFusedGradients, MaskAProductOfFewTermsInItsKernel) {
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor dy = random_tensor({37, 10}, dtype, 1);
    const Tensor w = random_tensor({24, 10}, dtype, 2);
    const Tensor y = random_tensor({37, 24}, dtype, 3);
    const ops::MatmulAttributes masked{.transpose_b = true, .relu_backward = true};
    EXPECT_EQ(expect_matmul(masked, dy, w, &y), "few_terms");
    EXPECT_EQ(expect_matmul({.transpose_b = true}, dy, w, nullptr), "few_terms");
    const Tensor odd = random_tensor({23, 10}, dtype, 2);
    const Tensor odd_y = random_tensor({37, 23}, dtype, 3);
    EXPECT_EQ(expect_matmul(masked, dy, odd, &odd_y), "few_terms");
  }
}

TEST_F(CudaFusedGradients, MaskOtherProductsAfterThem) {
  const Tensor dy = random_tensor({9, 40}, float16, 1);
  const Tensor w = random_tensor({24, 40}, float16, 2);
  const Tensor y = random_tensor({9, 24}, float16, 3);
  EXPECT_EQ(expect_matmul({.transpose_b = true, .relu_backward = true}, dy, w, &y),
            "cublaslt_then_mask");
}

TEST_F(CudaFusedGradients, ProductsOfFewColumnsAddABiasOfAnyDtype) {
  for (const DType dtype : {float16, float32, float64}) {
    const Tensor a = random_tensor({70, 45}, dtype, 1);
    const Tensor b = random_tensor({45, 10}, dtype, 2);
    const Tensor bias = random_tensor({10}, dtype, 3);
    const ops::MatmulAttributes attributes{.has_bias = true, .activation = ops::Activation::kRelu};
    std::string name;
    const DType store = dtype == float64 ? float64 : float32;
    const auto run = [&](const std::string& device) {
      return run_kernel("matmul", attributes, {&a, &b, &bias},
                        {.device = device, .store = store, .selected = &name});
    };
    const std::vector<Tensor> expected = run("cpu");
    expect_close(run(kDevice)[0], to_doubles(expected[0]), 1e-5, 1.0, "few columns");
    EXPECT_EQ(name, "few_columns");
  }
}

TEST_F(CudaFusedGradients, SumTheGradientOfABiasWithTheProduct) {
  const Tensor x = random_tensor({50, 12}, float16, 1);
  const Tensor dy = random_tensor({50, 10}, float16, 2);
  const ops::MatmulAttributes attributes{.transpose_a = true, .bias_gradient = true};
  EXPECT_EQ(expect_matmul(attributes, x, dy, nullptr, float32), "cublaslt");
  EXPECT_EQ(expect_matmul(attributes, x, dy, nullptr),
            "cublaslt_then_sum");  // float16: another dtype
  const Tensor wide_x = random_tensor({50, 12}, float64, 1);
  const Tensor wide_dy = random_tensor({50, 10}, float64, 2);
  EXPECT_EQ(expect_matmul(attributes, wide_x, wide_dy, nullptr), "cublaslt_then_sum");
}

struct PoolCase {
  Shape image;
  std::array<std::int64_t, 2> size, strides;
  bool relu;
  const char* kernel;
};

TEST_F(CudaFusedGradients, SumTheGradientOfAMaxPooling) {
  const PoolCase cases[] = {
      {{9, 8, 8, 32}, {2, 2}, {2, 2}, true, "packets_and_sums"},
      {{9, 7, 9, 24}, {2, 2}, {2, 2}, true, "packets_and_sums"},  // 3 packets of 8 channels
      {{3, 9, 8, 5}, {3, 3}, {2, 2}, false, "packets_and_sums"},  // windows overlap
      {{2, 4, 4, 1}, {2, 2}, {2, 2}, false, "packets_and_sums"},
      {{2, 4, 4, 504}, {2, 2}, {2, 2}, true, "packets_and_sums"},  // more channels than threads
      {{1, 4, 4, 301}, {2, 2}, {2, 2}, true, "packets_then_sum"},  // and more packets
      {{5, 8, 8, 301}, {2, 2}, {2, 2}, true, "packets_then_sum"},  // summed in parts
      {{0, 4, 4, 8}, {2, 2}, {2, 2}, true, "packets_then_sum"},
  };
  for (const DType dtype : {float16, float32, float64}) {
    for (const PoolCase& c : cases) {
      SCOPED_TRACE(c.image.to_string() + " " + std::string(to_string(dtype)));
      const Tensor x = random_tensor(c.image, dtype, 1);
      ops::Pool2DAttributes pool{.pool_size = c.size, .strides = c.strides, .relu = c.relu};
      const std::vector<Tensor> pooled = run_kernel("max_pool2d", pool, {&x}, {.device = "cpu"});
      const Tensor dy = random_tensor(pooled[0].shape(), dtype, 2);
      pool.image_size = {c.image[1], c.image[2]};
      std::vector<const Tensor*> inputs = {&dy, &pooled[1]};
      if (c.relu) inputs.push_back(&pooled[0]);
      const std::vector<Tensor> expected =
          run_kernel("max_pool2d_backward", pool, inputs, {.device = "cpu"});
      pool.bias_gradient = true;
      std::string name;
      const std::vector<Tensor> actual =
          run_kernel("max_pool2d_backward", pool, inputs, {.device = kDevice, .selected = &name});
      EXPECT_EQ(name, c.kernel);
      expect_close(actual[0], to_doubles(expected[0]), 2 * rounding_unit(dtype), 1.0, "dx");
      const double tolerance = dtype == float64 ? 1e-12 : (dtype == float32 ? 1e-5 : 2e-2);
      expect_close(actual[1], channel_sums(expected[0]), tolerance, 1.0, "sums");
    }
  }
}

class CudaMeanCrossEntropy : public CudaFusedGradients {
 protected:
  using Attributes = ops::MeanSparseCrossEntropyAttributes;
};

TEST_F(CudaMeanCrossEntropy, IsLossAccuracyAndGradientOfTheParts) {
  for (const std::int64_t rows : {1, 7, 2000}) {
    SCOPED_TRACE(rows);
    const Tensor scores = random_tensor({rows, 10}, float32, 1, -4, 4);
    const Tensor labels = random_tensor({rows}, uint8, 2, 0, 10);
    const Tensor dmean = Tensor::scalar(64.0F);
    const std::vector<Tensor> actual =
        run_kernel("mean_sparse_cross_entropy",
                   Attributes{.accuracy = Attributes::Accuracy::kOfSoftmax,
                              .has_gradient = true,
                              .gradient_dtype = float16,
                              .divisor = static_cast<double>(rows)},
                   {&scores, &labels, &dmean}, {.device = kDevice});

    const ops::CrossEntropyAttributes logits{.from_logits = true};
    const auto on_cpu = [](const char* op, const demi::Attributes& attributes,
                           const std::vector<const Tensor*>& inputs,
                           std::optional<DType> store = std::nullopt) {
      return std::move(run_kernel(op, attributes, inputs, {.device = "cpu", .store = store})[0]);
    };
    const Tensor losses = on_cpu("sparse_cross_entropy", logits, {&scores, &labels});
    const Tensor mean = on_cpu("mean", ops::ReductionAttributes{{0}, false}, {&losses});
    expect_close(actual[0], to_doubles(mean), 1e-5, 1.0, "mean");

    const Tensor p = on_cpu("softmax", ops::SoftmaxAttributes{-1}, {&scores});
    const std::vector<double> best =
        to_doubles(on_cpu("argmax", ops::ReductionAttributes{{1}, false}, {&p}));
    double correct = 0;
    const std::vector<double> truth = to_doubles(labels);
    for (std::size_t i = 0; i < best.size(); ++i) correct += best[i] == truth[i] ? 1 : 0;
    EXPECT_EQ(actual[1].item(), static_cast<float>(correct / static_cast<double>(rows)));

    const Tensor dloss = Tensor::full({rows}, 64.0F / static_cast<float>(rows), float32);
    const Tensor gradient =
        on_cpu("sparse_cross_entropy_backward", logits, {&dloss, &scores, &labels}, float16);
    expect_close(actual[2], to_doubles(gradient), 2 * rounding_unit(float16), 1.0, "gradient");
  }
}

TEST_F(CudaMeanCrossEntropy, ShowsLabelsOutOfRangeAndNaNs) {
  const double kInf = std::numeric_limits<double>::infinity();
  const Tensor scores = Tensor::from(std::vector<double>{1, 2, 3, 1, kInf, 3}, {2, 3}).to(float32);
  const Tensor labels = Tensor::from(std::vector<double>{0, 1}, {2}).to(int32);
  const Tensor beyond = Tensor::from(std::vector<double>{0, 3}, {2}).to(int32);
  const auto mean = [&](const Tensor& z, const Tensor& y) {
    return run_kernel("mean_sparse_cross_entropy", Attributes{}, {&z, &y}, {.device = kDevice})[0]
        .item();
  };
  EXPECT_TRUE(std::isnan(mean(scores, labels)));
  const Tensor finite = random_tensor({2, 3}, float32, 1);
  EXPECT_TRUE(std::isnan(mean(finite, beyond)));
  EXPECT_FALSE(std::isnan(mean(finite, labels)));
}

TEST_F(CudaMeanCrossEntropy, CountsTheFirstOfEqualScores) {
  const Tensor scores = Tensor::from(std::vector<double>{2, 2, 1, 0, 5, 5}, {2, 3}).to(float32);
  const Tensor labels = Tensor::from(std::vector<double>{0, 2}, {2}).to(int64);
  const std::vector<Tensor> actual = run_kernel(
      "mean_sparse_cross_entropy", Attributes{.accuracy = Attributes::Accuracy::kOfScores},
      {&scores, &labels}, {.device = kDevice});
  EXPECT_EQ(actual[1].item(), 0.5);
}

}  // namespace
}  // namespace demi
