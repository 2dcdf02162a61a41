// Barriers and warp intrinsics: what they compute, and what the emulator says to misuse.

#include <cmath>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"

namespace demi::testing {
namespace {

using cuda_emulator::launch_kernel;

constexpr unsigned kFull = 0xffffffffu;

using Block = EmulatorTest;
using BlockDeathTest = EmulatorTest;
using Warp = EmulatorTest;
using WarpDeathTest = EmulatorTest;

/// Runs a kernel of one block that must not survive.
template <class... Parameters>
void run(void (*kernel)(Parameters...), unsigned threads,
         std::type_identity_t<Parameters>... arguments) {
  (void)launch_kernel(kernel, 1, threads, 0, nullptr, arguments...);
  (void)cudaDeviceSynchronize();
}

// ---- Barriers
// ---------------------------------------------------------------------------------------

__global__ void reverse(const int* from, int* to, bool wait) {
  DEMI_SHARED(int, values, [64]);
  values[threadIdx.x] = from[threadIdx.x];
  if (wait) __syncthreads();
  to[threadIdx.x] = values[63 - threadIdx.x];
}

std::vector<int> ascending(int first, int step) {
  std::vector<int> values;
  for (int i = 0; i < 64; ++i) values.push_back(first + i * step);
  return values;
}

TEST_F(Block, BarriersSeparateStoresFromLoads) {
  const DeviceArray<int> from(ascending(0, 1));
  const DeviceArray<int> to(64);
  for (const std::uint64_t shuffle : {0u, 1u, 2u, 3u}) {
    demi_emulator_set_shuffle(shuffle);
    EXPECT_CUDA(launch_kernel(reverse, 1, 64, 0, nullptr, from.data(), to.data(), true));
    EXPECT_EQ(to.values(), ascending(63, -1));
  }
}

TEST_F(Block, AMissingBarrierGivesAWrongResult) {
  const DeviceArray<int> from(ascending(0, 1));
  const DeviceArray<int> to(64);
  EXPECT_CUDA(launch_kernel(reverse, 1, 64, 0, nullptr, from.data(), to.data(), false));
  EXPECT_NE(to.values(), ascending(63, -1));
  EXPECT_EQ(to.values()[0], -1);  // poison
}

__global__ void reduce(const int* x, int* results) {
  const int predicate = x[threadIdx.x];
  const int any = __syncthreads_or(predicate);
  const int all = __syncthreads_and(predicate);
  const int count = __syncthreads_count(predicate);
  if (threadIdx.x == blockDim.x - 1) {
    results[0] = any;
    results[1] = all;
    results[2] = count;
  }
}

TEST_F(Block, BarriersReduce) {
  const DeviceArray<int> results(3);
  const auto reduced = [&](std::vector<int> x) {
    const DeviceArray<int> device(x);
    EXPECT_CUDA(launch_kernel(reduce, 1, static_cast<unsigned>(x.size()), 0, nullptr, device.data(),
                              results.data()));
    return results.values();
  };
  EXPECT_EQ(reduced({0, 0, 0}), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(reduced({0, 8, 0}), (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(reduced({1, 2, 3}), (std::vector<int>{1, 1, 3}));
}

__global__ void last_block_sums(const int* x, int* partial, unsigned* counter, int* y) {
  DEMI_SHARED(bool, last, );
  int sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(kFull, sum, static_cast<unsigned>(distance));
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  *y = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *y += partial[i];
  *counter = 0;
}

TEST_F(Block, TheLastBlockMayGoOnAlone) {
  const DeviceArray<int> x(std::vector<int>(128, 1));
  const DeviceArray<int> partial(4), y(1);
  const DeviceArray<unsigned> counter(std::vector<unsigned>{0});
  for (const std::uint64_t shuffle : {0u, 1u, 2u}) {
    demi_emulator_set_shuffle(shuffle);
    EXPECT_CUDA(launch_kernel(last_block_sums, 4, 32, 0, nullptr, x.data(), partial.data(),
                              counter.data(), y.data()));
    EXPECT_EQ(y.values()[0], 128);
  }
}

__global__ void append(int* order, unsigned* count) {
  order[atomicAdd(count, 1u)] = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

TEST_F(Block, DependenceOnTheOrderOfThreadsShowsWhenTheyAreShuffled) {
  const DeviceArray<int> order(64);
  const auto run_shuffled = [&](std::uint64_t shuffle) {
    demi_emulator_set_shuffle(shuffle);
    const DeviceArray<unsigned> count(std::vector<unsigned>{0});
    EXPECT_CUDA(launch_kernel(append, 2, 32, 0, nullptr, order.data(), count.data()));
    return order.values();
  };
  EXPECT_EQ(run_shuffled(0), ascending(0, 1));
  EXPECT_NE(run_shuffled(1), ascending(0, 1));
  EXPECT_NE(run_shuffled(1), run_shuffled(2));
}

__global__ void diverge_to_two_barriers() {
  if (threadIdx.x < 3) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void diverge_to_two_kinds() {
  threadIdx.x < 3 ? (void)__syncthreads_or(1) : (void)__syncthreads_and(1);
}
__global__ void some_reach_the_barrier() {
  if (threadIdx.x % 2 == 0) __syncthreads();
}
__global__ void first_returns_early() {
  if (threadIdx.x == 0) return;
  __syncthreads();
}

TEST_F(BlockDeathTest, BarriersInDivergentCodeAreFatal) {
  EXPECT_DEATH(run(diverge_to_two_barriers, 4),
               "block \\(0, 0, 0\\), thread \\(3, 0, 0\\): divergent barriers: a thread is at ");
  EXPECT_DEATH(run(diverge_to_two_kinds, 4), "divergent barriers");
  EXPECT_DEATH(run(some_reach_the_barrier, 64),
               "deadlock in block \\(0, 0, 0\\) of 64 threads: 32 wait at the barrier at "
               ".*block_test.cpp.*, "
               "32 have returned");
}

TEST_F(BlockDeathTest, AThreadThatReturnsBeforeABarrierIsFatal) {
  EXPECT_DEATH(run(first_returns_early, 64), "63 wait at the barrier .* 1 have returned");
}

int descend(volatile int* depth) {
  volatile int here[64] = {*depth};
  *depth = *depth + 1;
  return *depth < 0 ? 0 : descend(depth) + here[*depth % 64];
}
__global__ void overrun_the_stack(int* x) {
  *x = descend(x);
}

TEST_F(BlockDeathTest, StacksEndAtInaccessiblePages) {
  const DeviceArray<int> x(std::vector<int>{0});
  EXPECT_DEATH(run(overrun_the_stack, 1, x.data()), "");
}

// ---- Warps
// ------------------------------------------------------------------------------------------

__global__ void exchange(int* results) {
  const int lane = static_cast<int>(threadIdx.x);
  int* to = results + 8 * lane;
  to[0] = __shfl_sync(kFull, lane, 5);
  to[1] = __shfl_sync(kFull, lane, lane + 1, 8);
  to[2] = __shfl_up_sync(kFull, lane, 3);
  to[3] = __shfl_down_sync(kFull, lane, 3, 16);
  to[4] = __shfl_xor_sync(kFull, lane, 17);
  to[5] = __shfl_xor_sync(kFull, lane, 4, 8);
  to[6] = static_cast<int>(__ballot_sync(kFull, lane % 3 == 0));
  to[7] = static_cast<int>(__match_any_sync(kFull, lane / 16));
}

TEST_F(Warp, IntrinsicsExchangeAmongLanes) {
  const DeviceArray<int> results(32 * 8);
  for (const std::uint64_t shuffle : {0u, 1u, 2u}) {
    demi_emulator_set_shuffle(shuffle);
    EXPECT_CUDA(launch_kernel(exchange, 1, 32, 0, nullptr, results.data()));
    const std::vector<int> values = results.values();
    for (int lane = 0; lane < 32; ++lane) {
      const int* got = values.data() + 8 * lane;
      EXPECT_EQ(got[0], 5);
      EXPECT_EQ(got[1], lane / 8 * 8 + (lane + 1) % 8);
      EXPECT_EQ(got[2], lane < 3 ? lane : lane - 3);
      EXPECT_EQ(got[3], lane % 16 > 12 ? lane : lane + 3);
      EXPECT_EQ(got[4], lane ^ 17);
      EXPECT_EQ(got[5], lane ^ 4);
      EXPECT_EQ(got[6], 0x49249249);
      EXPECT_EQ(static_cast<unsigned>(got[7]), lane < 16 ? 0x0000ffffu : 0xffff0000u);
    }
  }
}

__global__ void vote(int* results) {
  const int lane = static_cast<int>(threadIdx.x);
  results[2 * lane] = __any_sync(kFull, lane == 31) + 10 * __any_sync(kFull, 0);
  results[2 * lane + 1] = __all_sync(kFull, lane < 32) + 10 * __all_sync(kFull, lane < 31);
}

TEST_F(Warp, LanesVote) {
  const DeviceArray<int> results(64);
  EXPECT_CUDA(launch_kernel(vote, 1, 32, 0, nullptr, results.data()));
  EXPECT_EQ(results.values(), std::vector<int>(64, 1));
}

__global__ void halves(double* results) {
  const unsigned lane = threadIdx.x;
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  // The halves of a warp may be at different places, and pass 8 bytes.
  if (lane < 16) {
    results[lane] = __shfl_xor_sync(mask, static_cast<double>(lane), 1, 16);
  } else {
    results[lane] = __shfl_sync(mask, static_cast<double>(lane), 31);
  }
  __syncwarp();
}

TEST_F(Warp, PartsOfAWarpMeetAmongThemselves) {
  const DeviceArray<double> results(32);
  EXPECT_CUDA(launch_kernel(halves, 1, 32, 0, nullptr, results.data()));
  const std::vector<double> values = results.values();
  EXPECT_EQ(values[2], 3.0);
  EXPECT_EQ(values[20], 31.0);
}

__global__ void half_of_a_full_mask() {
  if (threadIdx.x < 16) (void)__shfl_xor_sync(kFull, 1.0f, 1);
}
__global__ void half_waits_at_a_barrier() {
  if (threadIdx.x < 16) (void)__shfl_xor_sync(kFull, 1.0f, 1);
  __syncthreads();
}
__global__ void source_outside_the_mask() {
  if (threadIdx.x < 16) (void)__shfl_sync(0x0000ffffu, 1.0f, 20);
}
__global__ void caller_outside_the_mask() {
  (void)__shfl_sync(1u, 1.0f, 0);
}
__global__ void different_intrinsics() {
  if (threadIdx.x % 2 == 0) {
    (void)__ballot_sync(kFull, 1);
  } else {
    (void)__shfl_sync(kFull, 1, 0);
  }
}
__global__ void different_masks() {
  (void)__ballot_sync(threadIdx.x % 2 == 0 ? kFull : 0xfffffffeu, 1);
}
__global__ void mask_of_missing_lanes() {
  (void)__ballot_sync(kFull, 1);
}

TEST_F(WarpDeathTest, MaskedLanesThatDoNotComeAreFatal) {
  demi_emulator_set_shuffle(0);
  EXPECT_DEATH(run(half_of_a_full_mask, 32), "deadlock .* 16 lanes wait at a shuffle|has returned");
  EXPECT_DEATH(run(half_waits_at_a_barrier, 32),
               "16 wait at the barrier .* 16 lanes wait at a shuffle");
}

TEST_F(WarpDeathTest, MasksMustNameTheCallerAndTheSource) {
  EXPECT_DEATH(run(source_outside_the_mask, 32), "reads lane 20, which its mask leaves out");
  EXPECT_DEATH(run(caller_outside_the_mask, 32), "a shuffle with a mask without the calling lane");
}

TEST_F(WarpDeathTest, LanesMustMeetAtOneIntrinsicWithOneMask) {
  EXPECT_DEATH(run(different_intrinsics, 32), "a shuffle at .* meets __ballot_sync at ");
  EXPECT_DEATH(run(different_masks, 32), "meets __ballot_sync with another mask");
}

TEST_F(WarpDeathTest, MasksMustNotNameLanesThatTheBlockDoesNotHave) {
  EXPECT_DEATH(run(mask_of_missing_lanes, 48), "a mask of lanes that the block does not have");
}

}  // namespace
}  // namespace demi::testing
