#include <cmath>
#include <cstring>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"

namespace demi::testing {
namespace {

using cuda_emulator::launch_kernel;

using Memory = EmulatorTest;
using MemoryDeathTest = EmulatorTest;

__global__ void store(float* to, long long index, float value) {
  to[index] = value;
}

TEST_F(Memory, CopiesRoundTrip) {
  const DeviceArray<int> x(std::vector<int>{1, 2, 3});
  const DeviceArray<int> y(3);
  EXPECT_CUDA(cudaMemcpy(y.data(), x.data(), 12, cudaMemcpyDeviceToDevice));
  EXPECT_EQ(y.values(), (std::vector<int>{1, 2, 3}));
  EXPECT_CUDA(cudaMemset(y.data() + 1, 0, 4));
  EXPECT_EQ(y.values(), (std::vector<int>{1, 0, 3}));
  int back = 0;
  EXPECT_CUDA(cudaMemcpy(&back, x.data() + 2, 4, cudaMemcpyDefault));
  EXPECT_EQ(back, 3);
}

TEST_F(Memory, FreshMemoryIsNaNOrWhatWasAskedFor) {
  EXPECT_TRUE(std::isnan(DeviceArray<float>(1).values()[0]));
  EXPECT_TRUE(std::isnan(PinnedArray<float>(1)[0]));
  demi_emulator_set_fill(0);
  EXPECT_EQ(DeviceArray<float>(1).values()[0], 0.0f);
}

TEST_F(Memory, AddressesAreAlignedAndNeverGivenOutTwice) {
  const float* first = DeviceArray<float>(100).data();
  const float* second = DeviceArray<float>(100).data();
  EXPECT_NE(first, second);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 512, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 512, 0u);
}

TEST_F(Memory, TheLimitMakesAllocationsFail) {
  demi_emulator_set_memory_limit(1 << 20);
  std::size_t free = 0, total = 0;
  {
    const DeviceArray<char> half(1 << 19);
    EXPECT_CUDA(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(free, 1u << 19);
    EXPECT_EQ(total, 1u << 20);
    void* more = &free;
    EXPECT_EQ(cudaMalloc(&more, (1 << 19) + 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(more, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
}

TEST_F(Memory, CountsBytesAndAllocations) {
  {
    const DeviceArray<char> x(1000);
    const DeviceArray<char> y(1);
    EXPECT_EQ(counters().device_allocations, 2u);
    EXPECT_EQ(counters().device_bytes, 1536u);
    EXPECT_EQ(demi_emulator_leaks("device allocation"), 2u);
  }
  EXPECT_EQ(counters().device_bytes, 0u);
  EXPECT_EQ(counters().device_bytes_peak, 1536u);
}

TEST_F(Memory, EmptyAllocationsSucceed) {
  void* address = this;
  EXPECT_CUDA(cudaMalloc(&address, 0));
  EXPECT_EQ(address, nullptr);
  EXPECT_CUDA(cudaFree(nullptr));
  EXPECT_CUDA(cudaFreeHost(nullptr));
}

TEST_F(Memory, RefusesToFreeWhatIsNotAllocated) {
  float* x = nullptr;
  EXPECT_CUDA(cudaMalloc(&x, 4));
  EXPECT_EQ(cudaFree(x + 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(x));
  EXPECT_EQ(cudaFree(x), cudaErrorInvalidValue);
  float host = 0;
  EXPECT_EQ(cudaFree(&host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(&host), cudaErrorInvalidValue);
}

TEST_F(Memory, RefusesCopiesThatLieAboutTheirPointers) {
  const DeviceArray<float> x(4);
  float host[4] = {};
  EXPECT_EQ(cudaMemcpy(host, x.data(), 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(x.data(), host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
}

TEST_F(Memory, RefusesCopiesAndFillsPastTheEnd) {
  const DeviceArray<float> x(4);
  float host[8] = {};
  EXPECT_EQ(cudaMemcpy(x.data(), host, 17, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, x.data() + 1, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(x.data() + 3, 0, 5), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemset(x.data() + 4, 0, 0));
}

TEST_F(Memory, TellsWhatAPointerPointsTo) {
  const DeviceArray<float> device(1);
  const PinnedArray<float> pinned(1);
  float host = 0;
  cudaPointerAttributes attributes;
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, device.data()));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, pinned.data()));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, &host));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(Memory, KernelsMayUsePinnedMemory) {
  const PinnedArray<float> x(1);
  EXPECT_CUDA(launch_kernel(store, 1, 1, 0, nullptr, x.data(), 0, 5.0f));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(x[0], 5.0f);
}

TEST_F(MemoryDeathTest, TheHostCannotTouchDeviceMemory) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  EXPECT_DEATH(std::printf("%f\n", static_cast<double>(*x.data())), "touched by the host");
  EXPECT_DEATH(*const_cast<volatile float*>(x.data()) = 0.0f, "touched by the host");
}

// AddressSanitizer sees these at the access, the emulator after the kernel.
TEST_F(MemoryDeathTest, WritesPastTheEndAreFatal) {
  const DeviceArray<float> x(5);
  EXPECT_DEATH(
      {
        (void)launch_kernel(store, 1, 1, 0, nullptr, x.data(), 5, 0.0f);
        (void)cudaDeviceSynchronize();
      },
      "kernel .*wrote 1 bytes past the END of a device allocation of 20 bytes|use-after-poison");
}

TEST_F(MemoryDeathTest, WritesBeforeTheBeginningAreFatal) {
  const DeviceArray<float> x(5);
  EXPECT_DEATH(
      {
        (void)launch_kernel(store, 1, 1, 0, nullptr, x.data(), -2, 0.0f);
        (void)cudaDeviceSynchronize();
      },
      "wrote 8 bytes before the BEGINNING of a device allocation of 20|use-after-poison");
}

TEST_F(MemoryDeathTest, LargeFreedMemoryIsInaccessibleToKernels) {
  float* x = nullptr;
  EXPECT_CUDA(cudaMalloc(&x, 8 << 20));
  const DeviceArray<float> other(1);
  const DeviceArray<float*> table(std::vector<float*>{x});
  EXPECT_CUDA(cudaFree(x));
  // An argument would be checked; a pointer in memory is found by the access only.
  const auto follow = +[](float** pointers, float* to) { *to = pointers[0][1 << 20]; };
  EXPECT_DEATH(
      {
        (void)launch_kernel(follow, 1, 1, 0, nullptr, table.data(), other.data());
        (void)cudaDeviceSynchronize();
      },
      "touched by the host, or after it was freed|use-after-poison");
}

TEST_F(Memory, SmallFreedMemoryReadsAsNaN) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "NOT TESTED, AddressSanitizer stops at the read";
#endif
  const DeviceArray<float> keeps_the_chunk(1);
  float* x = nullptr;
  EXPECT_CUDA(cudaMalloc(&x, 4));
  EXPECT_CUDA(cudaMemset(x, 0, 4));
  const DeviceArray<float*> table(std::vector<float*>{x});
  EXPECT_CUDA(cudaFree(x));
  const auto follow = +[](float** pointers, float* to) { *to = pointers[0][0]; };
  EXPECT_CUDA(launch_kernel(follow, 1, 1, 0, nullptr, table.data(), keeps_the_chunk.data()));
  EXPECT_TRUE(std::isnan(keeps_the_chunk.values()[0]));
}

TEST_F(MemoryDeathTest, WritesPastTheEndOfPinnedMemoryAreFatal) {
  char* x = nullptr;
  EXPECT_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&x), 10, 0));
  EXPECT_DEATH(
      {
        x[10] = 1;
        (void)cudaFreeHost(x);
      },
      "past the END of pinned memory of 10 bytes|use-after-poison");
  EXPECT_CUDA(cudaFreeHost(x));
  EXPECT_DEATH(x[0] = 1, "");
}

}  // namespace
}  // namespace demi::testing
