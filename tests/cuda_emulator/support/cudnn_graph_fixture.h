// What the tests of cuDNN's graph API share: convolutions as loops, a handle on a stream.
#pragma once

#include <cudnn.h>
#include <gtest/gtest.h>

#include "cuda_emulator/library_control.h"
#include "tests/cuda_emulator/support/cudnn_graph_builder.h"
#include "tests/cuda_emulator/support/device_array.h"

namespace cuda_emulator::testing {

inline constexpr auto kForward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
inline constexpr auto kBackwardData = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
inline constexpr auto kBackwardFilter =
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;

inline Storage storage_of(cudnnDataType_t type) {
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
inline std::int64_t count_of(const Extents& extents) {
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

inline std::size_t at(const TensorSpec& tensor, std::int64_t a, std::int64_t b, std::int64_t c,
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
inline const Case kSmall = {.n = 2,
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
/// A handle on a stream; the test is skipped, loudly, where cuDNN is not installed.
class CudnnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const cudnnStatus_t status = cudnnCreate(&handle_);
    if (status == CUDNN_STATUS_NOT_INITIALIZED) {
      GTEST_SKIP() << "NOT TESTED, no cuDNN: " << last_error();
    }
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

  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace cuda_emulator::testing
