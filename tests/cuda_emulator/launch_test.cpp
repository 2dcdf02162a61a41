#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"

namespace demi::testing {

/// Not in the unnamed namespace: messages can name it.
__global__ void named_kernel(float* to) {
  *to = 1.0f;
}

namespace {

using cuda_emulator::launch_kernel;

using Launch = EmulatorTest;
using LaunchDeathTest = EmulatorTest;

__global__ void nothing() {}

__global__ void count_threads(unsigned* counts) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  ++counts[block * blockDim.x * blockDim.y * blockDim.z + thread];
}

TEST_F(Launch, RunsEveryThreadOfEveryBlockOnce) {
  for (const std::uint64_t shuffle : {0u, 1u, 2u}) {
    demi_emulator_set_shuffle(shuffle);
    const DeviceArray<unsigned> counts(std::vector<unsigned>(2 * 3 * 2 * 4 * 2 * 3, 0));
    EXPECT_CUDA(
        launch_kernel(count_threads, dim3(2, 3, 2), dim3(4, 2, 3), 0, nullptr, counts.data()));
    for (const unsigned count : counts.values()) EXPECT_EQ(count, 1u);
  }
}

TEST_F(Launch, RefusesGridsAndBlocksThatTheDeviceHasNot) {
  const auto launch = [](dim3 grid, dim3 block) {
    return launch_kernel(nothing, grid, block, 0, nullptr);
  };
  EXPECT_EQ(launch(0, 32), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1025), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(32, 33)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, dim3(1, 1, 65)), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 1, 65536), 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(2147483648u, 1), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_CUDA(launch(dim3(1, 1, 1), dim3(1, 1, 64)));
  EXPECT_CUDA(launch(dim3(1, 3), dim3(32, 32)));
  EXPECT_EQ(counters().kernel_launches, 2u);
}

__global__ void sum_through_shared(const float* from, float* to) {
  DEMI_DYNAMIC_SHARED(float, values);
  values[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  if (threadIdx.x > 0) return;
  float sum = 0.0f;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += values[i];
  *to = sum;
}

TEST_F(Launch, GivesDynamicSharedMemory) {
  const DeviceArray<float> from(std::vector<float>(64, 0.5f));
  const DeviceArray<float> to(1);
  EXPECT_CUDA(launch_kernel(sum_through_shared, 1, 64, 64 * sizeof(float), nullptr, from.data(),
                            to.data()));
  EXPECT_EQ(to.values()[0], 32.0f);
}

TEST_F(Launch, MoreSharedMemoryMustBeAskedFor) {
  const auto launch = [](std::size_t bytes) {
    return launch_kernel(nothing, 1, 1, bytes, nullptr);
  };
  const auto* function = reinterpret_cast<const void*>(&nothing);
  int most = 0;
  EXPECT_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  EXPECT_CUDA(launch(49152));
  EXPECT_EQ(launch(49153), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  EXPECT_CUDA(launch(static_cast<std::size_t>(most)));
  EXPECT_EQ(launch(static_cast<std::size_t>(most) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1),
            cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, 49152));
}

__global__ void read_uninitialised(float* to) {
  DEMI_SHARED(float, tile, [2][3]);
  DEMI_DYNAMIC_SHARED(float, dynamic);
  to[0] = tile[1][2];
  to[1] = dynamic[3];
  tile[1][2] = 0.0f;
  dynamic[3] = 0.0f;
}

TEST_F(Launch, SharedMemoryOfEveryBlockIsPoisoned) {
  const DeviceArray<float> to(2);
  EXPECT_CUDA(launch_kernel(read_uninitialised, 2, 1, 16, nullptr, to.data()));
  EXPECT_TRUE(std::isnan(to.values()[0]));
  EXPECT_TRUE(std::isnan(to.values()[1]));
  demi_emulator_set_fill(0);
  EXPECT_CUDA(launch_kernel(read_uninitialised, 2, 1, 16, nullptr, to.data()));
  EXPECT_EQ(to.values(), (std::vector<float>{0.0f, 0.0f}));
}

/// Templates have static storage of their own.
template <class T>
__global__ void through_shared(T* x) {
  DEMI_SHARED(T, value, );
  if (threadIdx.x == 0) value = *x + static_cast<T>(1);
  __syncthreads();
  if (threadIdx.x == 1) *x = value;
}

TEST_F(Launch, SharedVariablesOfTemplatesWork) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  const DeviceArray<int> n(std::vector<int>{1});
  EXPECT_CUDA(launch_kernel(through_shared<float>, 1, 2, 0, nullptr, x.data()));
  EXPECT_CUDA(launch_kernel(through_shared<int>, 1, 2, 0, nullptr, n.data()));
  EXPECT_EQ(x.values()[0], 2.0f);
  EXPECT_EQ(n.values()[0], 2);
}

__global__ void too_much_shared() {
  DEMI_SHARED(float, most, [12288]);
  DEMI_SHARED(float, one_more, [1]);
  most[0] = one_more[0] = 0.0f;
}

TEST_F(LaunchDeathTest, StaticSharedMemoryIsLimited) {
  EXPECT_DEATH(
      {
        (void)launch_kernel(too_much_shared, 1, 1, 0, nullptr);
        (void)cudaDeviceSynchronize();
      },
      "49156 bytes of shared memory are used; the limit is 49152");
}

TEST_F(LaunchDeathTest, DynamicSharedMemoryMustBeGiven) {
  const DeviceArray<float> x(1);
  EXPECT_DEATH(
      {
        (void)launch_kernel(sum_through_shared, 1, 1, 0, nullptr, x.data(), x.data());
        (void)cudaDeviceSynchronize();
      },
      "the launch gave none");
}

// ---- Arguments
// --------------------------------------------------------------------------------------

struct Table {
  int count;
  float* pointers[4];
};
__global__ void take_table(Table table) {
  *table.pointers[0] = static_cast<float>(table.count);
}
__global__ void take_two(float*, const float*) {}

TEST_F(LaunchDeathTest, PointersToHostMemoryAreFatal) {
  const DeviceArray<float> x(1);
  float host = 0.0f;
  EXPECT_DEATH((void)launch_kernel(take_two, 1, 1, 0, nullptr, x.data(), &host),
               "argument 1, byte 0, points to memory of the host");
  Table table = {};
  table.pointers[0] = x.data();
  table.pointers[2] = &host;
  EXPECT_DEATH((void)launch_kernel(take_table, 1, 1, 0, nullptr, table),
               "argument 0, byte 24, points to memory of the host");
  table.pointers[2] = nullptr;
  table.count = 3;
  EXPECT_CUDA(launch_kernel(take_table, 1, 1, 0, nullptr, table));
  EXPECT_EQ(x.values()[0], 3.0f);
}

#if __has_builtin(__builtin_clear_padding)
struct Padded {
  double* to;
  bool flag;
  double value;
};

__global__ void take_padded(Padded padded) {
  *padded.to = padded.flag ? padded.value : 0;
}

TEST_F(Launch, PaddingOfArgumentsIsNotTakenForPointers) {
  const DeviceArray<double> x(std::vector<double>{0});
  const double host = 0;
  Padded padded;
  const double* rest = &host;
  std::memcpy(reinterpret_cast<char*>(&padded) + offsetof(Padded, flag), &rest, sizeof(rest));
  padded.to = x.data();
  padded.flag = true;
  padded.value = 2;
  EXPECT_CUDA(launch_kernel(take_padded, 1, 1, 0, nullptr, padded));
  EXPECT_EQ(x.values()[0], 2);
}
#endif

TEST_F(LaunchDeathTest, PointersToFreedMemoryAreFatal) {
  float* x = nullptr;
  EXPECT_CUDA(cudaMalloc(&x, 4));
  EXPECT_CUDA(launch_kernel(named_kernel, 1, 1, 0, nullptr, x));
  EXPECT_CUDA(cudaFree(x));
  EXPECT_DEATH((void)launch_kernel(named_kernel, 1, 1, 0, nullptr, x),
               "argument 0, byte 0, points to no live device memory");
}

TEST_F(Launch, PointersToTheEndOfMemoryAreAllowed) {
  const DeviceArray<float> x(1);
  EXPECT_CUDA(launch_kernel(take_two, 1, 1, 0, nullptr, x.data() + 1, x.data()));
}

}  // namespace
}  // namespace demi::testing
