// Execution of cuDNN's operation graphs on the emulator, against loops in float64.
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>

#include <cudnn.h>
#include <gtest/gtest.h>

#include "cuda_emulator/cudnn_control.h"
#include "tests/cuda_emulator/support/cudnn_graph_builder.h"
#include "tests/cuda_emulator/support/device_array.h"

namespace cuda_emulator::testing {
namespace {

constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
constexpr auto kBackwardData = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
constexpr auto kBackwardFilter = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;

Storage storage_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return Storage::kHalf;
    case CUDNN_DATA_BFLOAT16:
      return Storage::kBFloat16;
    case CUDNN_DATA_DOUBLE:
      return Storage::kDouble;
    default:
      return Storage::kFloat;
  }
}

/// Steps of one unit in the last place at 1.
double epsilon_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return 0x1p-10;
    case CUDNN_DATA_BFLOAT16:
      return 0x1p-7;
    case CUDNN_DATA_DOUBLE:
      return 0x1p-50;
    default:
      return 0x1p-21;
  }
}

std::int64_t count_of(const Extents& extents) {
  return extents[0] * extents[1] * extents[2] * extents[3];
}

struct Case {
  std::int64_t n, c, h, w, k, r, s, groups;
  ConvolutionSpec spec;
  cudnnDataType_t type;
  bool is_channels_last;

  [[nodiscard]] std::int64_t out(int axis) const {
    const std::int64_t extent = axis == 0 ? h : w, window = axis == 0 ? r : s;
    return (extent + spec.pad_before[axis] + spec.pad_after[axis] -
            spec.dilation[axis] * (window - 1) - 1) /
               spec.strides[axis] +
           1;
  }
  [[nodiscard]] TensorSpec tensor(std::int64_t id, Extents extents) const {
    return {id, type, extents, is_channels_last ? channels_last(extents) : channels_first(extents)};
  }
  [[nodiscard]] TensorSpec x() const { return tensor(1, {n, c, h, w}); }
  [[nodiscard]] TensorSpec filter() const { return tensor(2, {k, c / groups, r, s}); }
  [[nodiscard]] TensorSpec y() const { return tensor(3, {n, k, out(0), out(1)}); }
};

std::size_t at(const TensorSpec& tensor, std::int64_t a, std::int64_t b, std::int64_t c,
               std::int64_t d) {
  return static_cast<std::size_t>(a * tensor.strides[0] + b * tensor.strides[1] +
                                  c * tensor.strides[2] + d * tensor.strides[3]);
}

/// visit(index in x, in the filter, in y) for each product of a convolution.
template <class Visit>
void for_each_product(const Case& shape, Visit&& visit) {
  const TensorSpec x = shape.x(), filter = shape.filter(), y = shape.y();
  const std::int64_t per_group = shape.c / shape.groups, filters = shape.k / shape.groups;
  for (std::int64_t n = 0; n < shape.n; ++n) {
    for (std::int64_t k = 0; k < shape.k; ++k) {
      for (std::int64_t oh = 0; oh < shape.out(0); ++oh) {
        for (std::int64_t ow = 0; ow < shape.out(1); ++ow) {
          for (std::int64_t c = 0; c < per_group; ++c) {
            for (std::int64_t r = 0; r < shape.r; ++r) {
              for (std::int64_t s = 0; s < shape.s; ++s) {
                const std::int64_t h = oh * shape.spec.strides[0] - shape.spec.pad_before[0] +
                                       r * shape.spec.dilation[0];
                const std::int64_t w = ow * shape.spec.strides[1] - shape.spec.pad_before[1] +
                                       s * shape.spec.dilation[1];
                if (h < 0 || h >= shape.h || w < 0 || w >= shape.w) continue;
                visit(at(x, n, k / filters * per_group + c, h, w), at(filter, k, c, r, s),
                      at(y, n, k, oh, ow));
              }
            }
          }
        }
      }
    }
  }
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "at " << i;
  }
}

bool device_has_bfloat16() {
  int major = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  return major >= 8;
}

class CudnnGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    const cudnnStatus_t status = cudnnCreate(&handle_);
    if (status == CUDNN_STATUS_NOT_INITIALIZED) GTEST_SKIP() << last_error();
    ASSERT_EQ(status, CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cudnnSetStream(handle_, stream_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    demi_emulator_refuse_plans(0);
    if (handle_ == nullptr) return;
    EXPECT_EQ(cudnnDestroy(handle_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  /// Plans the builder's graph and runs it.
  cudnnStatus_t run(Builder& builder, const std::vector<std::pair<std::int64_t, void*>>& tensors,
                    bool tensor_cores = true) {
    cudnnBackendDescriptor_t plan = builder.plan(handle_, tensor_cores);
    EXPECT_NE(plan, nullptr) << builder.failure().message;
    if (plan == nullptr) return CUDNN_STATUS_NOT_SUPPORTED;
    const auto workspace_bytes = static_cast<std::size_t>(builder.workspace_bytes(plan));
    workspace_ = std::make_unique<DeviceArray>(Storage::kFloat, workspace_bytes / 4 + 1);
    return cudnnBackendExecute(handle_, plan, builder.variant_pack(tensors, workspace_->get()));
  }

  void check_convolution(cudnnBackendDescriptorType_t which, const Case& shape) {
    const TensorSpec x = shape.x(), filter = shape.filter(), y = shape.y();
    const Storage storage = storage_of(shape.type);
    std::vector<double> x_values = random_values(count_of(x.extents), storage, 1);
    std::vector<double> filter_values = random_values(count_of(filter.extents), storage, 2);
    std::vector<double> y_values = random_values(count_of(y.extents), storage, 3);
    std::vector<double>& result = which == kForward        ? y_values
                                  : which == kBackwardData ? x_values
                                                           : filter_values;
    const DeviceArray x_array(storage, x_values), filter_array(storage, filter_values);
    const DeviceArray y_array(storage, y_values);
    Builder builder;
    builder.convolution(which, shape.spec, x, filter, y);
    ASSERT_EQ(run(builder, {{1, x_array.get()}, {2, filter_array.get()}, {3, y_array.get()}},
                  shape.type != CUDNN_DATA_FLOAT),
              CUDNN_STATUS_SUCCESS)
        << last_error();
    const std::vector<double> old = result;
    std::vector<double> sums(result.size());
    for_each_product(shape, [&](std::size_t i, std::size_t j, std::size_t k) {
      if (which == kForward) sums[k] += x_values[i] * filter_values[j];
      if (which == kBackwardData) sums[i] += y_values[k] * filter_values[j];
      if (which == kBackwardFilter) sums[j] += x_values[i] * y_values[k];
    });
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = shape.spec.alpha * sums[i] + shape.spec.beta * old[i];
    }
    const DeviceArray& target = which == kForward        ? y_array
                                : which == kBackwardData ? x_array
                                                         : filter_array;
    expect_near(target.read(), sums, 4 * epsilon_of(shape.type));
  }

  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<DeviceArray> workspace_;
};

const Case kSmall = {.n = 2,
                     .c = 8,
                     .h = 7,
                     .w = 6,
                     .k = 5,
                     .r = 3,
                     .s = 3,
                     .groups = 1,
                     .spec = {.pad_before = {1, 1}, .pad_after = {1, 1}},
                     .type = CUDNN_DATA_HALF,
                     .is_channels_last = true};

TEST_F(CudnnGraph, ConvolutionsAgreeWithLoopsInEveryType) {
  for (const cudnnDataType_t type :
       {CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE}) {
    for (const auto which : {kForward, kBackwardData, kBackwardFilter}) {
      SCOPED_TRACE(::testing::Message() << "type " << type << ", operation " << which);
      if (type == CUDNN_DATA_BFLOAT16 && !device_has_bfloat16()) {
        Builder builder;
        Case shape = kSmall;
        shape.type = type;
        builder.convolution(which, shape.spec, shape.x(), shape.filter(), shape.y());
        EXPECT_EQ(builder.plan(handle_), nullptr);
        continue;
      }
      Case shape = kSmall;
      shape.type = type;
      if (type == CUDNN_DATA_DOUBLE) {
        shape.spec.compute = CUDNN_DATA_DOUBLE;
        shape.is_channels_last = false;
      }
      check_convolution(which, shape);
    }
  }
}

TEST_F(CudnnGraph, ConvolutionsTakeStridesDilationGroupsAndUnequalPadding) {
  Case strided = kSmall;
  strided.spec.strides = {2, 3};
  strided.spec.pad_before = {0, 1};
  strided.spec.pad_after = {1, 2};
  Case dilated = kSmall;
  dilated.spec.dilation = {2, 1};
  dilated.spec.pad_before = dilated.spec.pad_after = {2, 0};
  Case grouped = kSmall;
  grouped.c = 16;
  grouped.k = 32;
  grouped.groups = 2;
  Case odd = kSmall;
  odd.c = 3;
  odd.r = 2;
  odd.s = 1;
  for (const Case& shape : {strided, dilated, grouped, odd}) {
    for (const auto which : {kForward, kBackwardData, kBackwardFilter})
      check_convolution(which, shape);
  }
}

TEST_F(CudnnGraph, ConvolutionsTakeChannelsFirst) {
  Case shape = kSmall;
  shape.is_channels_last = false;
  shape.type = CUDNN_DATA_FLOAT;
  for (const auto which : {kForward, kBackwardData, kBackwardFilter})
    check_convolution(which, shape);
}

TEST_F(CudnnGraph, AlphaAndBetaScaleTheResultAndWhatWasThere) {
  Case shape = kSmall;
  shape.spec.alpha = 0.5F;
  shape.spec.beta = 2;
  shape.type = CUDNN_DATA_FLOAT;
  for (const auto which : {kForward, kBackwardData, kBackwardFilter})
    check_convolution(which, shape);
}

TEST_F(CudnnGraph, FusesResidualBiasAndRelu) {
  const Case shape = kSmall;
  const TensorSpec x = shape.x(), filter = shape.filter(), y = shape.y();
  TensorSpec product = y, sum = y, biased = y;
  for (TensorSpec* tensor : {&product, &sum, &biased}) {
    tensor->type = CUDNN_DATA_FLOAT;
    tensor->is_virtual = true;
  }
  product.id = 10;
  sum.id = 11;
  biased.id = 12;
  const TensorSpec residual = shape.tensor(4, y.extents);
  const TensorSpec bias = shape.tensor(5, {1, shape.k, 1, 1});
  Builder builder;
  builder.convolution(kForward, shape.spec, x, filter, product);
  builder.pointwise(CUDNN_POINTWISE_ADD, product, &residual, sum);
  builder.pointwise(CUDNN_POINTWISE_ADD, sum, &bias, biased);
  builder.pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, y);

  const Storage half = Storage::kHalf;
  const auto x_values = random_values(count_of(x.extents), half, 1);
  const auto filter_values = random_values(count_of(filter.extents), half, 2);
  const auto residual_values = random_values(count_of(y.extents), half, 3);
  const auto bias_values = random_values(count_of(bias.extents), half, 4);
  const DeviceArray x_array(half, x_values), filter_array(half, filter_values);
  const DeviceArray residual_array(half, residual_values), bias_array(half, bias_values);
  const DeviceArray y_array(half, residual_values.size());
  ASSERT_EQ(run(builder, {{1, x_array.get()},
                          {2, filter_array.get()},
                          {3, y_array.get()},
                          {4, residual_array.get()},
                          {5, bias_array.get()}}),
            CUDNN_STATUS_SUCCESS)
      << last_error();
  std::vector<double> expected = residual_values;
  for_each_product(shape, [&](std::size_t i, std::size_t j, std::size_t k) {
    expected[k] += x_values[i] * filter_values[j];
  });
  const auto channels = static_cast<std::size_t>(shape.k);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(0.0, expected[i] + bias_values[i % channels]);
  }
  expect_near(y_array.read(), expected, 0x1p-9);
}

TEST_F(CudnnGraph, ReluMakesNanZeroUnlessToldOtherwise) {
  Case shape = kSmall;
  const TensorSpec x = shape.x(), filter = shape.filter(), y = shape.y();
  TensorSpec product = y, biased = y;
  for (TensorSpec* tensor : {&product, &biased}) {
    tensor->type = CUDNN_DATA_FLOAT;
    tensor->is_virtual = true;
  }
  product.id = 10;
  biased.id = 11;
  const TensorSpec bias = shape.tensor(5, {1, shape.k, 1, 1});
  Builder builder;
  builder.convolution(kForward, shape.spec, x, filter, product);
  builder.pointwise(CUDNN_POINTWISE_ADD, product, &bias, biased);
  builder.pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, y);
  const std::vector<double> nans(count_of(x.extents), std::nan(""));
  const DeviceArray x_array(Storage::kHalf, nans);
  const DeviceArray filter_array(Storage::kHalf, std::vector<double>(count_of(filter.extents), 1));
  const DeviceArray bias_array(Storage::kHalf, std::vector<double>(shape.k, 1));
  const DeviceArray y_array(Storage::kHalf, count_of(y.extents));
  ASSERT_EQ(
      run(builder,
          {{1, x_array.get()}, {2, filter_array.get()}, {3, y_array.get()}, {5, bias_array.get()}}),
      CUDNN_STATUS_SUCCESS);
  for (const double value : y_array.read()) EXPECT_EQ(value, 0);
}

TEST_F(CudnnGraph, TensorCoresRoundFloat32OperandsToTf32) {
  Case shape = kSmall;
  shape.type = CUDNN_DATA_FLOAT;
  shape.c = 1;
  shape.r = shape.s = 1;
  shape.spec.pad_before = shape.spec.pad_after = {0, 0};
  const DeviceArray x(Storage::kFloat,
                      std::vector<double>(count_of(shape.x().extents), 1 + 0x1p-12));
  const DeviceArray filter(Storage::kFloat, std::vector<double>(shape.k, 1 + 0x1.8p-11));
  const DeviceArray y(Storage::kFloat, count_of(shape.y().extents));
  for (const bool tensor_cores : {true, false}) {
    Builder builder;
    builder.convolution(kForward, shape.spec, shape.x(), shape.filter(), shape.y());
    ASSERT_EQ(run(builder, {{1, x.get()}, {2, filter.get()}, {3, y.get()}}, tensor_cores),
              CUDNN_STATUS_SUCCESS);
    const double exact = (1 + 0x1p-12) * (1 + 0x1.8p-11);
    const double expected = tensor_cores ? 1 + 0x1p-10 : exact;
    for (const double value : y.read()) EXPECT_NEAR(value, expected, 0x1p-22);
  }
}

/// A planned convolution of halves and its memory.
class Prepared {
 public:
  Prepared(cudnnHandle_t handle, const Case& shape, cudnnBackendDescriptorType_t which = kForward)
      : x(Storage::kHalf, random_values(count_of(shape.x().extents), Storage::kHalf, 1)),
        filter(Storage::kHalf, random_values(count_of(shape.filter().extents), Storage::kHalf, 2)),
        y(Storage::kHalf, count_of(shape.y().extents)),
        workspace(Storage::kFloat, 1 << 22) {
    builder.convolution(which, shape.spec, shape.x(), shape.filter(), shape.y());
    plan = builder.plan(handle);
  }
  cudnnBackendDescriptor_t pack(void* x_address, void* filter_address, void* y_address,
                                void* workspace_address) {
    return builder.variant_pack({{1, x_address}, {2, filter_address}, {3, y_address}},
                                workspace_address);
  }

  Builder builder;
  DeviceArray x, filter, y, workspace;
  cudnnBackendDescriptor_t plan = nullptr;
};

TEST_F(CudnnGraph, RefusesAVariantPackThatDoesNotFitThePlan) {
  Prepared p(handle_, kSmall);
  ASSERT_NE(p.plan, nullptr);
  cudnnBackendDescriptor_t missing =
      p.builder.variant_pack({{1, p.x.get()}, {3, p.y.get()}}, p.workspace.get());
  EXPECT_EQ(cudnnBackendExecute(handle_, p.plan, missing), CUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(last_error().find("lacks tensor 2"), std::string::npos);
  cudnnBackendDescriptor_t null_address = p.pack(p.x.get(), nullptr, p.y.get(), p.workspace.get());
  EXPECT_EQ(cudnnBackendExecute(handle_, p.plan, null_address),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  cudnnBackendDescriptor_t misaligned =
      p.pack(p.x.bytes() + 2, p.filter.get(), p.y.get(), p.workspace.get());
  EXPECT_EQ(cudnnBackendExecute(handle_, p.plan, misaligned),
            CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(cudnnBackendExecute(nullptr, p.plan, misaligned), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(cudnnBackendExecute(handle_, misaligned, p.plan), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

TEST_F(CudnnGraph, RefusesAPlanThatWasNotFinalized) {
  Prepared p(handle_, kSmall);
  cudnnBackendDescriptor_t plan = p.builder.create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(cudnnBackendExecute(handle_, plan,
                                p.pack(p.x.get(), p.filter.get(), p.y.get(), p.workspace.get())),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

using CudnnGraphDeathTest = CudnnGraph;

TEST_F(CudnnGraphDeathTest, StopsAtMemoryThatIsNotTheDevices) {
  Prepared p(handle_, kSmall);
  alignas(256) static std::byte host[4096];
  EXPECT_DEATH((void)cudnnBackendExecute(
                   handle_, p.plan, p.pack(host, p.filter.get(), p.y.get(), p.workspace.get())),
               "tensor 1 needs 1344 bytes of one device allocation");
  EXPECT_DEATH(
      (void)cudnnBackendExecute(
          handle_, p.plan, p.pack(p.x.bytes() + 16, p.filter.get(), p.y.get(), p.workspace.get())),
      "from its address there are 13");
  EXPECT_DEATH(
      (void)cudnnBackendExecute(handle_, p.plan,
                                p.pack(p.x.get(), p.filter.get(), p.x.get(), p.workspace.get())),
      "tensor 1 overlaps tensor 3");
}

TEST_F(CudnnGraphDeathTest, StopsAtAWorkspaceThatIsTooSmallOrMisaligned) {
  // Which plans need workspace differs from device to device.
  std::unique_ptr<Prepared> prepared;
  for (const auto which : {kForward, kBackwardData, kBackwardFilter}) {
    for (const std::int64_t channels : {1, 3, 8, 64}) {
      if (prepared != nullptr && prepared->builder.workspace_bytes(prepared->plan) > 0) break;
      Case shape = kSmall;
      shape.c = channels;
      shape.k = 2 * channels;
      prepared = std::make_unique<Prepared>(handle_, shape, which);
    }
  }
  Prepared& p = *prepared;
  if (p.builder.workspace_bytes(p.plan) == 0) GTEST_SKIP() << "no plan needs workspace here";
  EXPECT_EQ(
      cudnnBackendExecute(handle_, p.plan, p.pack(p.x.get(), p.filter.get(), p.y.get(), nullptr)),
      CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_DEATH(
      (void)cudnnBackendExecute(
          handle_, p.plan, p.pack(p.x.get(), p.filter.get(), p.y.get(), p.workspace.bytes() + 64)),
      "not aligned to 256");
  const DeviceArray little(Storage::kHalf, 8);
  EXPECT_DEATH((void)cudnnBackendExecute(
                   handle_, p.plan, p.pack(p.x.get(), p.filter.get(), p.y.get(), little.get())),
               "the workspace needs");
}

TEST_F(CudnnGraphDeathTest, StopsAtDestroyedObjects) {
  cudnnHandle_t other = nullptr;
  ASSERT_EQ(cudnnCreate(&other), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnDestroy(other), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH((void)cudnnSetStream(other, stream_), "cuDNN handle was destroyed");
  cudnnBackendDescriptor_t descriptor = nullptr;
  ASSERT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnBackendDestroyDescriptor(descriptor), CUDNN_STATUS_SUCCESS);
  EXPECT_DEATH((void)cudnnBackendFinalize(descriptor), "descriptor was destroyed");
}

TEST_F(CudnnGraph, RefusesAsManyPlansAsAsked) {
  demi_emulator_refuse_plans(2);
  Builder builder;
  builder.convolution(kForward, kSmall.spec, kSmall.x(), kSmall.filter(), kSmall.y());
  EXPECT_NE(builder.plan(handle_), nullptr);
  EXPECT_GE(builder.refused(), 2);
}

TEST_F(CudnnGraph, TheInstalledLibraryRefusesWhatItHasNoEngineFor) {
  TensorSpec filter = kSmall.filter();
  filter.type = CUDNN_DATA_FLOAT;  // a float32 gradient of half data
  Builder builder;
  builder.convolution(kBackwardFilter, kSmall.spec, kSmall.x(), filter, kSmall.y());
  EXPECT_EQ(builder.plan(handle_), nullptr);
}

TEST_F(CudnnGraph, PlansAndConfigurationsSerialize) {
  Prepared p(handle_, kSmall);
  std::string json(1 << 16, '\0');
  std::int64_t count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(p.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()),
                                     &count, json.data()),
            CUDNN_STATUS_SUCCESS);
  EXPECT_GT(count, 100);
  EXPECT_EQ(json.front(), '{');
}

TEST_F(CudnnGraph, HandlesKeepTheirStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudnnGetStream(handle_, &stream), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(stream, stream_);
  EXPECT_EQ(cudnnSetStream(nullptr, stream_), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_GE(cudnnGetVersion(), 90000U);
  EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_BAD_PARAM), "CUDNN_STATUS_BAD_PARAM");
}

TEST(CudnnGraphWithoutLibraryDeathTest, SaysThatTheLibraryIsMissing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("DEMI_EMULATOR_CUDNN", "/nowhere/libcudnn.so.9", 1);
  EXPECT_EXIT(
      {
        cudnnHandle_t handle = nullptr;
        const cudnnStatus_t status = cudnnCreate(&handle);
        std::fprintf(stderr, "%s: %s", cudnnGetErrorString(status), last_error().c_str());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "CUDNN_STATUS_NOT_INITIALIZED: .*there is none: /nowhere");
  unsetenv("DEMI_EMULATOR_CUDNN");
}

}  // namespace
}  // namespace cuda_emulator::testing
