// The emulated cuDNN's descriptor functions against the installed library's own, with random
// arguments: nothing may be lost, added or judged differently on the way.
#include <dlfcn.h>

#include <array>
#include <random>

#include <cudnn.h>
#include <gtest/gtest.h>

#include "tests/cuda_emulator/support/cudnn_graph_builder.h"

namespace cuda_emulator::testing {
namespace {

constexpr int kRounds = 10000;

class DescriptorFuzz : public ::testing::Test {
 protected:
  void SetUp() override {
    cudnnTensorDescriptor_t descriptor = nullptr;
    if (cudnnCreateTensorDescriptor(&descriptor) == CUDNN_STATUS_NOT_INITIALIZED) {
      GTEST_SKIP() << "NOT TESTED, no cuDNN: " << last_error();
    }
    EXPECT_EQ(cudnnDestroyTensorDescriptor(descriptor), CUDNN_STATUS_SUCCESS);
    // The emulator has loaded it.
    library_ = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (library_ != nullptr) dlclose(library_);
  }

  template <class Function>
  Function* real(const char* name, Function*) const {
    void* const symbol = dlsym(library_, name);
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<Function*>(symbol);
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  /// Mostly valid extents.
  int extent() { return pick(0, 20) == 0 ? pick(-1, 0) : pick(1, 12); }

  void* library_ = nullptr;
  std::mt19937 random_{7};
};

#define REAL(name) real(#name, &::name)

TEST_F(DescriptorFuzz, TensorsAgree) {
  cudnnTensorDescriptor_t ours = nullptr, theirs = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&ours), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(REAL(cudnnCreateTensorDescriptor)(&theirs), CUDNN_STATUS_SUCCESS);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto type = static_cast<cudnnDataType_t>(pick(0, 12));
    const std::array<int, 4> e = {extent(), extent(), extent(), extent()};
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS, expected = CUDNN_STATUS_SUCCESS;
    if (round % 2 == 0) {
      const auto format = static_cast<cudnnTensorFormat_t>(pick(0, 2));
      status = cudnnSetTensor4dDescriptor(ours, format, type, e[0], e[1], e[2], e[3]);
      expected = REAL(cudnnSetTensor4dDescriptor)(theirs, format, type, e[0], e[1], e[2], e[3]);
    } else {
      const std::array<int, 4> s = {pick(1, 2000), pick(1, 200), pick(1, 40), extent()};
      status =
          cudnnSetTensor4dDescriptorEx(ours, type, e[0], e[1], e[2], e[3], s[0], s[1], s[2], s[3]);
      expected = REAL(cudnnSetTensor4dDescriptorEx)(theirs, type, e[0], e[1], e[2], e[3], s[0],
                                                    s[1], s[2], s[3]);
    }
    ASSERT_EQ(status, expected);
    if (status != CUDNN_STATUS_SUCCESS) continue;
    ++accepted;
    std::array<int, 8> a = {}, b = {};
    cudnnDataType_t type_a, type_b;
    ASSERT_EQ(cudnnGetTensor4dDescriptor(ours, &type_a, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
                                         &a[6], &a[7]),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(REAL(cudnnGetTensor4dDescriptor)(theirs, &type_b, &b[0], &b[1], &b[2], &b[3], &b[4],
                                               &b[5], &b[6], &b[7]),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(type_a, type_b);
    ASSERT_EQ(a, b);
    std::size_t bytes_a = 0, bytes_b = 1;
    ASSERT_EQ(cudnnGetTensorSizeInBytes(ours, &bytes_a),
              REAL(cudnnGetTensorSizeInBytes)(theirs, &bytes_b));
    ASSERT_EQ(bytes_a, bytes_b);
  }
  EXPECT_GT(accepted, kRounds / 10);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(ours), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(REAL(cudnnDestroyTensorDescriptor)(theirs), CUDNN_STATUS_SUCCESS);
}

TEST_F(DescriptorFuzz, PoolingAgrees) {
  cudnnPoolingDescriptor_t ours = nullptr, theirs = nullptr;
  cudnnTensorDescriptor_t x_ours = nullptr, x_theirs = nullptr;
  ASSERT_EQ(cudnnCreatePoolingDescriptor(&ours), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(REAL(cudnnCreatePoolingDescriptor)(&theirs), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnCreateTensorDescriptor(&x_ours), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(REAL(cudnnCreateTensorDescriptor)(&x_theirs), CUDNN_STATUS_SUCCESS);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto mode = static_cast<cudnnPoolingMode_t>(pick(0, 4));
    const auto nans = static_cast<cudnnNanPropagation_t>(pick(0, 2));
    const std::array<int, 6> p = {pick(0, 4),  pick(1, 4), pick(-1, 3),
                                  pick(-1, 3), pick(0, 3), pick(1, 3)};
    const cudnnStatus_t status =
        cudnnSetPooling2dDescriptor(ours, mode, nans, p[0], p[1], p[2], p[3], p[4], p[5]);
    ASSERT_EQ(status, REAL(cudnnSetPooling2dDescriptor)(theirs, mode, nans, p[0], p[1], p[2], p[3],
                                                        p[4], p[5]));
    if (status != CUDNN_STATUS_SUCCESS) continue;
    const std::array<int, 4> e = {pick(1, 4), pick(1, 9), pick(1, 9), pick(1, 9)};
    (void)cudnnSetTensor4dDescriptor(x_ours, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, e[0], e[1], e[2],
                                     e[3]);
    (void)REAL(cudnnSetTensor4dDescriptor)(x_theirs, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, e[0], e[1],
                                           e[2], e[3]);
    std::array<int, 4> a = {}, b = {};
    ASSERT_EQ(
        cudnnGetPooling2dForwardOutputDim(ours, x_ours, &a[0], &a[1], &a[2], &a[3]),
        REAL(cudnnGetPooling2dForwardOutputDim)(theirs, x_theirs, &b[0], &b[1], &b[2], &b[3]));
    ASSERT_EQ(a, b);
    std::array<int, 6> got = {};
    cudnnPoolingMode_t got_mode;
    cudnnNanPropagation_t got_nans;
    ASSERT_EQ(cudnnGetPooling2dDescriptor(ours, &got_mode, &got_nans, &got[0], &got[1], &got[2],
                                          &got[3], &got[4], &got[5]),
              CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(got, p);
    ASSERT_EQ(got_mode, mode);
    ++accepted;
  }
  EXPECT_GT(accepted, kRounds / 20);
  EXPECT_EQ(cudnnDestroyPoolingDescriptor(ours), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnDestroyTensorDescriptor(x_ours), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(REAL(cudnnDestroyPoolingDescriptor)(theirs), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(REAL(cudnnDestroyTensorDescriptor)(x_theirs), CUDNN_STATUS_SUCCESS);
}

}  // namespace
}  // namespace cuda_emulator::testing
