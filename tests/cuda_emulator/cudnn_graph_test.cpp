// The arithmetic of cuDNN's operation graphs on the emulator, against loops in float64.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "cuda_emulator/control.h"
#include "tests/cuda_emulator/support/cudnn_graph_fixture.h"

namespace cuda_emulator::testing {
namespace {

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
void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "at " << i;
  }
}

class CudnnGraph : public CudnnTest {
 protected:
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

  std::unique_ptr<DeviceArray> workspace_;
};
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

/// Destroyed when the program ends, after the thread's own objects.
struct LateHandle {
  cudnnHandle_t handle = nullptr;
  LateHandle() = default;
  LateHandle(const LateHandle&) = delete;
  LateHandle& operator=(const LateHandle&) = delete;
  ~LateHandle() { (void)cudnnDestroy(handle); }
};

// Finds something only where writes to freed memory are looked for.
TEST_F(CudnnGraph, HandlesMayBeDestroyedByStaticObjects) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // What is alive at the exit, the fixture's objects too, is no mistake here.
        unsetenv("DEMI_EMULATOR_FATAL_LEAKS");
        demi_emulator_reset();
        static LateHandle late;
        (void)cudnnCreate(&late.handle);
        cudnnBackendDescriptor_t graph = nullptr;
        (void)cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, &graph);
        std::int64_t count = 0;
        cudnnHandle_t none = nullptr;
        const cudnnStatus_t status = cudnnBackendGetAttribute(
            graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &count, &none);
        (void)cudnnBackendDestroyDescriptor(graph);
        std::exit(status == CUDNN_STATUS_BAD_PARAM ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cuda_emulator::testing
