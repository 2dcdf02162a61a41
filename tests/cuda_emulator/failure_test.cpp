// Injected failures, faults, leaks, and the device that is described.

#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"
#include "tests/cuda_emulator/src/stream.h"

namespace demi::testing {
namespace {

using cuda_emulator::launch_kernel;

using Failures = EmulatorTest;
using Device = EmulatorTest;
using FailuresDeathTest = EmulatorTest;

__global__ void set(float* to, float value) {
  *to = value;
}

TEST_F(Failures, TheNthAllocationFailsOnce) {
  demi_emulator_fail_allocation_after(1);
  void *first = nullptr, *second = nullptr, *third = nullptr;
  EXPECT_CUDA(cudaMalloc(&first, 4));
  EXPECT_EQ(cudaHostAlloc(&second, 4, 0), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaMalloc(&third, 4));
  EXPECT_CUDA(cudaFree(first));
  EXPECT_CUDA(cudaFree(third));
}

TEST_F(Failures, TheNthCallFailsOnceAndDoesNothing) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  demi_emulator_fail_call_after(1, cudaErrorLaunchFailure);
  EXPECT_CUDA(cudaMemsetAsync(x.data(), 0, 2, nullptr));
  EXPECT_EQ(cudaMemsetAsync(x.data(), 0, 4, nullptr), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  EXPECT_EQ(x.values()[0], 1.0f);  // The lower half of 1.0f is 0 already.
}

TEST_F(Failures, ResetForgetsInjectedFailures) {
  demi_emulator_fail_call_after(0, cudaErrorUnknown);
  demi_emulator_fail_allocation_after(0);
  demi_emulator_reset();
  const DeviceArray<float> x(1);
  demi_emulator_fail_call_after(0, cudaErrorUnknown);
  demi_emulator_fail_call_after(-1, 0);
  EXPECT_CUDA(cudaDeviceSynchronize());
}

TEST_F(Failures, AFaultSticks) {
  float* x = nullptr;
  EXPECT_CUDA(cudaMalloc(&x, 4));
  demi_emulator_fail_operation_after(0);
  // The launch is fine; who waits for it hears of the fault, and everybody after.
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, nullptr, x, 1.0f));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(launch_kernel(set, 1, 1, 0, nullptr, x, 1.0f), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaFree(x), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  demi_emulator_reset();
  EXPECT_CUDA(cudaGetLastError());
  EXPECT_CUDA(cudaFree(x));
}

TEST_F(Failures, CallsOfLibrariesFailToo) {
  demi_emulator_fail_call_after(0, cudaErrorUnknown);
  EXPECT_EQ(cuda_emulator::Call("library call").error(), cudaErrorUnknown);
  EXPECT_EQ(cuda_emulator::Call("library call").error(), cudaSuccess);
}

TEST_F(Failures, ErrorsHaveNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST_F(Failures, PeekingDoesNotForgetTheError) {
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaPeekAtLastError());
}

TEST_F(Failures, LeaksAreCountedByKind) {
  const DeviceArray<float> x(1);
  const PinnedArray<float> y(1);
  const TestStream stream;
  const TestEvent event;
  EXPECT_EQ(demi_emulator_leaks("device allocation"), 1u);
  EXPECT_EQ(demi_emulator_leaks("pinned allocation"), 1u);
  EXPECT_EQ(demi_emulator_leaks("stream"), 1u);
  EXPECT_EQ(demi_emulator_leaks("event"), 1u);
  EXPECT_EQ(demi_emulator_leaks(nullptr), 4u);
}

/// A program of its own, which reads the environment anew.
class FreshProgramDeathTest : public ::testing::Test {
 protected:
  FreshProgramDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~FreshProgramDeathTest() override { GTEST_FLAG_SET(death_test_style, "fast"); }
};

void leave_a_leak(const char* fatal) {
  setenv("DEMI_EMULATOR_FATAL_LEAKS", fatal, 1);
  demi_emulator_reset();
  cudaStream_t stream = nullptr;
  void* x = nullptr;
  EXPECT_CUDA(cudaStreamCreate(&stream));
  EXPECT_CUDA(cudaMalloc(&x, 4));
  std::exit(0);
}

TEST_F(FreshProgramDeathTest, LeaksAreReportedAtExit) {
  EXPECT_EXIT(leave_a_leak("0"), ::testing::ExitedWithCode(0),
              "leaked at exit: 1 device allocation, 1 stream");
  EXPECT_EXIT(leave_a_leak("1"), ::testing::ExitedWithCode(66),
              "leaked at exit: 1 device allocation, 1 stream");
}

void print_device(const char* name) {
  setenv("DEMI_EMULATOR_DEVICE", name, 1);
  cudaDeviceProp properties;
  EXPECT_CUDA(cudaGetDeviceProperties(&properties, 0));
  std::fprintf(stderr, "%s, %d.%d, %d\n", properties.name, properties.major, properties.minor,
               cuda_emulator::compute_capability());
  std::exit(0);
}

TEST_F(FreshProgramDeathTest, TheEnvironmentNamesTheDevice) {
  EXPECT_EXIT(print_device("t4"), ::testing::ExitedWithCode(0), "T4, 7.5, 75");
  EXPECT_EXIT(print_device(""), ::testing::ExitedWithCode(0), "NVIDIA H200, 9.0, 90");
  EXPECT_DEATH(print_device("nonsense"), "none of .*h200.*: nonsense");
}

TEST_F(Device, AnswersFromItsProfile) {
  int count = 0, value = 0, version = 0;
  EXPECT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 1);
  EXPECT_CUDA(cudaSetDevice(0));
  cudaDeviceProp properties;
  EXPECT_CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(value, properties.multiProcessorCount);
  EXPECT_CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 0));
  EXPECT_EQ(value, 49152);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 1), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
  EXPECT_NE(cuda_emulator::device_json().find("multiProcessorCount"), std::string::npos);
}

TEST_F(Device, TellsHowManyBlocksFit) {
  int blocks = 0;
  const auto* function = reinterpret_cast<const void*>(&set);
  EXPECT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 1024, 0));
  EXPECT_EQ(blocks, 2);
  EXPECT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 100000));
  EXPECT_EQ(blocks, 2);
}

}  // namespace
}  // namespace demi::testing
