// Pooling and batch normalization of the emulated cuDNN against loops in float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/cuda_emulator/support/cudnn_graph_fixture.h"

namespace cuda_emulator::testing {
namespace {

constexpr int kN = 2, kC = 3, kH = 5, kW = 6;
const float kOne = 1, kZero = 0;

/// A tensor descriptor, channels last.
class TensorDescriptor {
 public:
  TensorDescriptor(cudnnDataType_t type, int n, int c, int h, int w) {
    EXPECT_EQ(cudnnCreateTensorDescriptor(&descriptor_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(descriptor_, CUDNN_TENSOR_NHWC, type, n, c, h, w),
              CUDNN_STATUS_SUCCESS);
  }
  ~TensorDescriptor() { (void)cudnnDestroyTensorDescriptor(descriptor_); }
  TensorDescriptor(const TensorDescriptor&) = delete;
  TensorDescriptor& operator=(const TensorDescriptor&) = delete;
  [[nodiscard]] cudnnTensorDescriptor_t get() const { return descriptor_; }

 private:
  cudnnTensorDescriptor_t descriptor_ = nullptr;
};

class CudnnPooling : public CudnnTest {
 protected:
  void SetUp() override {
    CudnnTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(cudnnCreatePoolingDescriptor(&pooling_), CUDNN_STATUS_SUCCESS);
    x_descriptor_ = std::make_unique<TensorDescriptor>(CUDNN_DATA_HALF, kN, kC, kH, kW);
    y_descriptor_ = std::make_unique<TensorDescriptor>(CUDNN_DATA_HALF, kN, kC, kOh, kOw);
  }
  void TearDown() override {
    if (pooling_ != nullptr) {
      EXPECT_EQ(cudnnDestroyPoolingDescriptor(pooling_), CUDNN_STATUS_SUCCESS);
    }
    CudnnTest::TearDown();
  }

  /// Windows of 3 × 2, one row of padding, strides 2 and 1.
  void set(cudnnPoolingMode_t mode, cudnnNanPropagation_t nans = CUDNN_PROPAGATE_NAN) {
    ASSERT_EQ(cudnnSetPooling2dDescriptor(pooling_, mode, nans, 3, 2, 1, 0, 2, 1),
              CUDNN_STATUS_SUCCESS);
  }

  /// visit(index in y, indices of the window in x).
  template <class Visit>
  static void for_each_window(Visit&& visit) {
    for (int n = 0; n < kN; ++n) {
      for (int i = 0; i < kOh; ++i) {
        for (int j = 0; j < kOw; ++j) {
          for (int c = 0; c < kC; ++c) {
            std::vector<std::size_t> inside;
            for (int h = 2 * i - 1; h < 2 * i + 2; ++h) {
              for (int w = j; w < j + 2; ++w) {
                if (h >= 0 && h < kH) inside.push_back(((n * kH + h) * kW + w) * kC + c);
              }
            }
            visit(static_cast<std::size_t>(((n * kOh + i) * kOw + j) * kC + c), inside);
          }
        }
      }
    }
  }

  static constexpr int kOh = 3, kOw = 5;
  cudnnPoolingDescriptor_t pooling_ = nullptr;
  std::unique_ptr<TensorDescriptor> x_descriptor_, y_descriptor_;
  const std::vector<double> x_ = random_values(kN * kC * kH * kW, Storage::kHalf, 1);
  const std::vector<double> dy_ = random_values(kN * kC * kOh * kOw, Storage::kHalf, 2);
};

TEST_F(CudnnPooling, AgreesWithLoops) {
  for (const auto mode :
       {CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
        CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING}) {
    set(mode);
    const bool is_max = mode == CUDNN_POOLING_MAX_DETERMINISTIC;
    const DeviceArray x(Storage::kHalf, x_), y(Storage::kHalf, dy_.size()), dy(Storage::kHalf, dy_);
    const DeviceArray dx(Storage::kHalf, x_.size());
    ASSERT_EQ(cudnnPoolingForward(handle_, pooling_, &kOne, x_descriptor_->get(), x.get(), &kZero,
                                  y_descriptor_->get(), y.get()),
              CUDNN_STATUS_SUCCESS)
        << last_error();
    ASSERT_EQ(cudnnPoolingBackward(handle_, pooling_, &kOne, y_descriptor_->get(), y.get(),
                                   y_descriptor_->get(), dy.get(), x_descriptor_->get(), x.get(),
                                   &kZero, x_descriptor_->get(), dx.get()),
              CUDNN_STATUS_SUCCESS)
        << last_error();
    std::vector<double> expected(dy_.size()), gradient(x_.size());
    for_each_window([&](std::size_t to, const std::vector<std::size_t>& inside) {
      if (is_max) {
        const std::size_t best =
            *std::max_element(inside.begin(), inside.end(),
                              [&](std::size_t a, std::size_t b) { return x_[a] < x_[b]; });
        expected[to] = x_[best];
        gradient[best] += dy_[to];
        return;
      }
      const double count = mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
                               ? static_cast<double>(inside.size())
                               : 6;
      for (const std::size_t i : inside) {
        expected[to] += x_[i] / count;
        gradient[i] += dy_[to] / count;
      }
    });
    const std::vector<double> result = y.read(), result_gradient = dx.read();
    for (std::size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-3);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(result_gradient[i], gradient[i], 4e-3);
    }
  }
}

TEST_F(CudnnPooling, PropagatesNanOnRequest) {
  std::vector<double> values(x_.size(), -1);
  values[0] = std::nan("");
  const DeviceArray x(Storage::kHalf, values), y(Storage::kHalf, dy_.size());
  for (const auto nans : {CUDNN_PROPAGATE_NAN, CUDNN_NOT_PROPAGATE_NAN}) {
    set(CUDNN_POOLING_MAX, nans);
    ASSERT_EQ(cudnnPoolingForward(handle_, pooling_, &kOne, x_descriptor_->get(), x.get(), &kZero,
                                  y_descriptor_->get(), y.get()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(std::isnan(y.read()[0]), nans == CUDNN_PROPAGATE_NAN);
  }
}

TEST_F(CudnnPooling, RefusesDescriptorsThatDoNotMatch) {
  set(CUDNN_POOLING_MAX);
  const DeviceArray x(Storage::kHalf, x_), y(Storage::kHalf, dy_.size());
  const auto run = [&](const TensorDescriptor& y_descriptor, void* address) {
    return cudnnPoolingForward(handle_, pooling_, &kOne, x_descriptor_->get(), x.get(), &kZero,
                               y_descriptor.get(), address);
  };
  const TensorDescriptor extents(CUDNN_DATA_HALF, kN, kC, kOh, kOw + 1);
  const TensorDescriptor type(CUDNN_DATA_FLOAT, kN, kC, kOh, kOw);
  EXPECT_EQ(run(extents, y.get()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(type, y.get()), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(*y_descriptor_, nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_DEATH((void)run(*y_descriptor_, x.get()), "y overlaps x");
  EXPECT_DEATH((void)run(*y_descriptor_, y.bytes() + 2), "y needs 180 bytes");
}

class CudnnBatchNormalization : public CudnnTest {
 protected:
  void SetUp() override {
    CudnnTest::SetUp();
    if (IsSkipped()) return;
    tensor_ = std::make_unique<TensorDescriptor>(CUDNN_DATA_HALF, kN, kC, kH, kW);
    vector_ = std::make_unique<TensorDescriptor>(CUDNN_DATA_FLOAT, 1, kC, 1, 1);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      mean_[i % kC] += x_[i] / kPopulation;
    }
    for (std::size_t i = 0; i < x_.size(); ++i) {
      variance_[i % kC] += std::pow(x_[i] - mean_[i % kC], 2) / kPopulation;
    }
  }

  [[nodiscard]] double normalized(std::size_t i) const {
    return (x_[i] - mean_[i % kC]) / std::sqrt(variance_[i % kC] + kEpsilon);
  }

  static constexpr double kPopulation = kN * kH * kW, kEpsilon = 1e-3;
  std::unique_ptr<TensorDescriptor> tensor_, vector_;
  const std::vector<double> x_ = random_values(kN * kC * kH * kW, Storage::kHalf, 1);
  const std::vector<double> dy_ = random_values(kN * kC * kH * kW, Storage::kHalf, 2);
  const std::vector<double> scale_ = {0.5, 1, 2}, bias_ = {0, 1, -1};
  std::vector<double> mean_ = std::vector<double>(kC), variance_ = std::vector<double>(kC);
};

TEST_F(CudnnBatchNormalization, TrainsAndInfersAsTheFormulaSays) {
  const DeviceArray x(Storage::kHalf, x_), y(Storage::kHalf, x_.size());
  const DeviceArray scale(Storage::kFloat, scale_), bias(Storage::kFloat, bias_);
  const DeviceArray mean(Storage::kFloat, {1, 1, 1}), variance(Storage::kFloat, {2, 2, 2});
  const DeviceArray saved_mean(Storage::kFloat, kC), saved_inverse(Storage::kFloat, kC);
  ASSERT_EQ(cudnnBatchNormalizationForwardTraining(
                handle_, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, tensor_->get(), x.get(),
                tensor_->get(), y.get(), vector_->get(), scale.get(), bias.get(), 0.25, mean.get(),
                variance.get(), kEpsilon, saved_mean.get(), saved_inverse.get()),
            CUDNN_STATUS_SUCCESS)
      << last_error();
  const std::vector<double> result = y.read();
  for (std::size_t i = 0; i < result.size(); ++i) {
    ASSERT_NEAR(result[i], scale_[i % kC] * normalized(i) + bias_[i % kC], 4e-3);
  }
  const auto running_mean = mean.read(), running_variance = variance.read();
  const auto saved = saved_inverse.read();
  for (int c = 0; c < kC; ++c) {
    EXPECT_NEAR(running_mean[c], 0.75 + 0.25 * mean_[c], 1e-5);
    EXPECT_NEAR(running_variance[c], 1.5 + 0.25 * variance_[c] * kPopulation / (kPopulation - 1),
                1e-5);
    EXPECT_NEAR(saved[c], 1 / std::sqrt(variance_[c] + kEpsilon), 1e-4);
  }
  ASSERT_EQ(
      cudnnBatchNormalizationForwardInference(
          handle_, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, tensor_->get(), x.get(), tensor_->get(),
          y.get(), vector_->get(), scale.get(), bias.get(), mean.get(), variance.get(), kEpsilon),
      CUDNN_STATUS_SUCCESS);
  const std::vector<double> inferred = y.read();
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    const std::size_t c = i % kC;
    const double expected =
        scale_[c] * (x_[i] - running_mean[c]) / std::sqrt(running_variance[c] + kEpsilon) +
        bias_[c];
    ASSERT_NEAR(inferred[i], expected, 4e-3);
  }
}

TEST_F(CudnnBatchNormalization, GradientsAreThoseOfTheFormula) {
  const DeviceArray x(Storage::kHalf, x_), dy(Storage::kHalf, dy_), dx(Storage::kHalf, x_.size());
  const DeviceArray scale(Storage::kFloat, scale_);
  const DeviceArray dscale(Storage::kFloat, kC), dbias(Storage::kFloat, kC);
  std::size_t bytes = 0, reserve = 1;
  ASSERT_EQ(cudnnGetBatchNormalizationBackwardExWorkspaceSize(
                handle_, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN, tensor_->get(),
                nullptr, tensor_->get(), nullptr, tensor_->get(), vector_->get(), nullptr, &bytes),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
                handle_, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN, nullptr,
                tensor_->get(), &reserve),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(reserve, 0U);
  const DeviceArray workspace(Storage::kFloat, bytes / 4 + 1);
  const auto run = [&](std::size_t workspace_bytes) {
    return cudnnBatchNormalizationBackwardEx(
        handle_, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN, &kOne, &kZero, &kOne,
        &kZero, tensor_->get(), x.get(), nullptr, nullptr, tensor_->get(), dy.get(), nullptr,
        nullptr, tensor_->get(), dx.get(), vector_->get(), scale.get(), nullptr, dscale.get(),
        dbias.get(), kEpsilon, nullptr, nullptr, nullptr, workspace.get(), workspace_bytes, nullptr,
        0);
  };
  EXPECT_EQ(run(bytes - 1), CUDNN_STATUS_BAD_PARAM);
  ASSERT_EQ(run(bytes), CUDNN_STATUS_SUCCESS) << last_error();
  std::vector<double> sum(kC), sum_normalized(kC);
  for (std::size_t i = 0; i < x_.size(); ++i) {
    sum[i % kC] += dy_[i];
    sum_normalized[i % kC] += dy_[i] * normalized(i);
  }
  const std::vector<double> result = dx.read(), scales = dscale.read(), biases = dbias.read();
  for (int c = 0; c < kC; ++c) {
    EXPECT_NEAR(scales[c], sum_normalized[c], 1e-4);
    EXPECT_NEAR(biases[c], sum[c], 1e-4);
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t c = i % kC;
    const double centred = dy_[i] - (sum[c] + normalized(i) * sum_normalized[c]) / kPopulation;
    ASSERT_NEAR(result[i], scale_[c] / std::sqrt(variance_[c] + kEpsilon) * centred, 8e-3);
  }
}

TEST_F(CudnnBatchNormalization, RefusesWhatDoesNotFit) {
  const DeviceArray x(Storage::kHalf, x_), y(Storage::kHalf, x_.size());
  const DeviceArray vector(Storage::kFloat, scale_), other(Storage::kFloat, scale_);
  const TensorDescriptor half_vector(CUDNN_DATA_HALF, 1, kC, 1, 1);
  const TensorDescriptor long_vector(CUDNN_DATA_FLOAT, 1, kC + 1, 1, 1);
  const auto run = [&](const TensorDescriptor& statistics, void* running_variance, double epsilon) {
    return cudnnBatchNormalizationForwardTraining(
        handle_, CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, tensor_->get(), x.get(), tensor_->get(),
        y.get(), statistics.get(), vector.get(), vector.get(), 1, other.get(), running_variance,
        epsilon, nullptr, nullptr);
  };
  EXPECT_EQ(run(half_vector, nullptr, kEpsilon), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(long_vector, nullptr, kEpsilon), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(*vector_, nullptr, kEpsilon), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(run(*vector_, other.get(), -1), CUDNN_STATUS_BAD_PARAM);
  EXPECT_DEATH((void)run(*vector_, vector.get(), kEpsilon), "a statistic overlaps scale");
}

}  // namespace
}  // namespace cuda_emulator::testing
