#include <cmath>
#include <string>
#include <thread>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"
#include "tests/cuda_emulator/src/stream.h"

namespace demi::testing {
namespace {

using cuda_emulator::launch_kernel;

using Streams = EmulatorTest;
using StreamsDeathTest = EmulatorTest;

__global__ void add(float* to, const float* from) {
  *to += *from;
}
__global__ void set(float* to, float value) {
  *to = value;
}

TEST_F(Streams, WorkWaitsUntilTheHostWaits) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  const TestStream stream;
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 2.0f));
  EXPECT_EQ(demi_emulator_pending_operations(), 1u);
  EXPECT_EQ(counters().kernel_launches, 1u);
  EXPECT_EQ(counters().operations, 1u);  // the copy to x
}

TEST_F(Streams, SynchronizeRunsTheStream) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  const TestStream stream;
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 2.0f));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(demi_emulator_pending_operations(), 0u);
  EXPECT_EQ(x.values()[0], 2.0f);
}

TEST_F(Streams, AHostThatLooksTooEarlyReadsPoison) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  const PinnedArray<float> y(1);
  y[0] = 7.0f;
  const TestStream stream;
  EXPECT_CUDA(cudaMemcpyAsync(y.data(), x.data(), 4, cudaMemcpyDeviceToHost, stream));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(y[0], 1.0f);
}

TEST_F(Streams, CopiesToPageableMemoryWait) {
  const DeviceArray<float> x(std::vector<float>{1.0f});
  float y = 7.0f;
  const TestStream stream;
  const auto before = counters().host_synchronizations;
  EXPECT_CUDA(cudaMemcpyAsync(&y, x.data(), 4, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(y, 1.0f);
  EXPECT_EQ(counters().host_synchronizations, before + 1);
}

TEST_F(Streams, PageableMemoryIsReadAtTheCallAndPinnedMemoryLater) {
  const DeviceArray<float> x(2);
  const PinnedArray<float> pinned(1);
  float pageable = 1.0f;
  pinned[0] = 1.0f;
  const TestStream stream;
  EXPECT_CUDA(cudaMemcpyAsync(x.data(), &pageable, 4, cudaMemcpyHostToDevice, stream));
  EXPECT_CUDA(cudaMemcpyAsync(x.data() + 1, pinned.data(), 4, cudaMemcpyHostToDevice, stream));
  pageable = 2.0f;
  pinned[0] = 2.0f;
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(x.values(), (std::vector<float>{1.0f, 2.0f}));
}

/// y = 1 on one stream, x += y on another, with or without the wait between.
float produce_and_consume(bool wait) {
  const DeviceArray<float> x(std::vector<float>{0.0f});
  const DeviceArray<float> y(std::vector<float>{0.0f});
  const TestStream producer, consumer;
  const TestEvent produced(cudaEventDisableTiming);
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, producer, y.data(), 1.0f));
  EXPECT_CUDA(cudaEventRecord(produced, producer));
  if (wait) {
    EXPECT_CUDA(cudaStreamWaitEvent(consumer, produced, 0));
  }
  EXPECT_CUDA(launch_kernel(add, 1, 1, 0, consumer, x.data(), y.data()));
  EXPECT_CUDA(cudaStreamSynchronize(consumer));
  EXPECT_CUDA(cudaStreamSynchronize(producer));
  return x.values()[0];
}

TEST_F(Streams, AMissingWaitShowsForSomeSeed) {
  EXPECT_EQ(produce_and_consume(false), 1.0f);
  bool wrong = false;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    demi_emulator_set_seed(seed);
    wrong = wrong || produce_and_consume(false) != 1.0f;
  }
  EXPECT_TRUE(wrong);
}

TEST_F(Streams, AWaitIsKeptForEverySeed) {
  for (std::uint64_t seed = 0; seed <= 8; ++seed) {
    demi_emulator_set_seed(seed);
    EXPECT_EQ(produce_and_consume(true), 1.0f);
  }
}

TEST_F(Streams, AWaitHoldsForTheRecordBeforeIt) {
  for (std::uint64_t seed = 0; seed <= 4; ++seed) {
    demi_emulator_set_seed(seed);
    const DeviceArray<float> x(std::vector<float>{0.0f});
    const TestStream first, second;
    const TestEvent event;
    // Waiting for an event that was never recorded is no wait.
    EXPECT_CUDA(cudaStreamWaitEvent(second, event, 0));
    EXPECT_CUDA(launch_kernel(set, 1, 1, 0, first, x.data(), 1.0f));
    EXPECT_CUDA(cudaEventRecord(event, first));
    EXPECT_CUDA(cudaStreamWaitEvent(second, event, 0));
    EXPECT_CUDA(cudaEventRecord(event, second));
    EXPECT_CUDA(launch_kernel(set, 1, 1, 0, second, x.data(), 2.0f));
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_EQ(x.values()[0], 2.0f);
  }
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  for (std::uint64_t seed = 0; seed <= 8; ++seed) {
    demi_emulator_set_seed(seed);
    const DeviceArray<float> x(std::vector<float>{0.0f});
    const TestStream blocking(cudaStreamDefault);
    EXPECT_CUDA(launch_kernel(set, 1, 1, 0, blocking, x.data(), 1.0f));
    EXPECT_CUDA(launch_kernel(add, 1, 1, 0, nullptr, x.data(), x.data()));
    EXPECT_CUDA(launch_kernel(add, 1, 1, 0, blocking, x.data(), x.data()));
    EXPECT_CUDA(cudaStreamSynchronize(blocking));
    EXPECT_EQ(x.values()[0], 4.0f);
  }
}

TEST_F(Streams, EventsTellHowFarAStreamIs) {
  const DeviceArray<float> x(1);
  const TestStream stream;
  const TestEvent start, stop;
  const TestEvent untimed(cudaEventDisableTiming);
  float milliseconds = 0;
  EXPECT_CUDA(cudaEventQuery(start));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, stop), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaEventRecord(start, stream));
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 1.0f));
  EXPECT_CUDA(cudaEventRecord(stop, stream));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, stop), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(stop), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_CUDA(cudaEventSynchronize(stop));
  EXPECT_CUDA(cudaEventQuery(stop));
  EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GT(milliseconds, 0.0f);
  EXPECT_CUDA(cudaEventRecord(untimed, stream));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST_F(Streams, EventSynchronizeRunsNoMoreThanItMust) {
  const DeviceArray<float> x(1);
  const TestStream stream;
  const TestEvent event;
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 1.0f));
  EXPECT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 2.0f));
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_EQ(demi_emulator_pending_operations(), 1u);
}

TEST_F(Streams, AHostThatPollsSeesTheEnd) {
  const DeviceArray<float> x(1);
  const TestStream stream;
  for (int i = 0; i < 10; ++i) {
    EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 1.0f));
  }
  int polls = 0;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) ++polls;
  EXPECT_EQ(polls, 10);
}

TEST_F(Streams, LibrariesQueueTheirWorkToo) {
  const DeviceArray<float> x(1);
  const TestStream stream;
  EXPECT_CUDA(cuda_emulator::enqueue(stream, "library", [&] { *x.data() = 3.0f; }));
  EXPECT_EQ(counters().library_launches, 1u);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(x.values()[0], 3.0f);
}

TEST_F(Streams, HostFunctionsRunInOrder) {
  const TestStream stream;
  std::string order;
  const auto append = [](void* text) { static_cast<std::string*>(text)->push_back('a'); };
  EXPECT_CUDA(cudaLaunchHostFunc(stream, append, &order));
  EXPECT_EQ(order, "");
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(order, "a");
}

TEST_F(Streams, DestroyingAStreamFinishesItsWork) {
  const DeviceArray<float> x(1);
  {
    const TestStream stream;
    EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 1.0f));
  }
  EXPECT_EQ(x.values()[0], 1.0f);
}

TEST_F(Streams, CountsWhatTheHostDoes) {
  const DeviceArray<float> x(1);
  const TestStream stream;
  const auto before = counters();
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x.data(), 1.0f));
  EXPECT_CUDA(cudaMemsetAsync(x.data(), 0, 4, stream));
  EXPECT_EQ(counters().host_synchronizations, before.host_synchronizations);
  EXPECT_EQ(counters().kernel_launches, before.kernel_launches + 1);
  EXPECT_EQ(counters().operations, before.operations);
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_EQ(counters().host_synchronizations, before.host_synchronizations + 1);
  EXPECT_EQ(counters().operations, before.operations + 2);
}

TEST_F(Streams, ManyThreadsMayCall) {
  constexpr int kThreads = 4;
  const DeviceArray<int> x(std::vector<int>{0});
  const auto increment = +[](int* to) { ++*to; };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      const TestStream stream;
      for (int n = 0; n < 50; ++n) {
        EXPECT_CUDA(launch_kernel(increment, 1, 1, 0, stream, x.data()));
        EXPECT_CUDA(cudaStreamSynchronize(stream));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(x.values()[0], 50 * kThreads);
}

TEST_F(Streams, LongQueuesMakeTheHostWait) {
  const DeviceArray<float> x(1);
  const TestStream stream;
  for (int i = 0; i < 5000; ++i) {
    EXPECT_CUDA(cudaMemsetAsync(x.data(), 0, 4, stream));
  }
  EXPECT_LT(demi_emulator_pending_operations(), 5000u);
}

TEST_F(Streams, NullHandlesAreRefused) {
  EXPECT_EQ(cudaEventRecord(nullptr, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventSynchronize(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(nullptr), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamsDeathTest, DestroyedHandlesAreFatal) {
  cudaStream_t stream = nullptr;
  EXPECT_CUDA(cudaStreamCreate(&stream));
  EXPECT_CUDA(cudaStreamDestroy(stream));
  EXPECT_DEATH((void)cudaStreamSynchronize(stream), "the stream was destroyed before");
  EXPECT_DEATH((void)launch_kernel(set, 1, 1, 0, stream, nullptr, 1.0f),
               "the stream was destroyed");
  cudaEvent_t event = nullptr;
  EXPECT_CUDA(cudaEventCreate(&event));
  EXPECT_CUDA(cudaEventDestroy(event));
  EXPECT_DEATH((void)cudaEventRecord(event, nullptr), "the event was destroyed before");
  EXPECT_DEATH((void)cudaEventDestroy(event), "the event was destroyed before");
}

TEST_F(StreamsDeathTest, HostFunctionsMayNotCallTheRuntime) {
  const auto function = [](void*) { (void)cudaDeviceSynchronize(); };
  EXPECT_DEATH(
      {
        (void)cudaLaunchHostFunc(nullptr, function, nullptr);
        (void)cudaDeviceSynchronize();
      },
      "cudaDeviceSynchronize is called inside work on a stream");
}

}  // namespace
}  // namespace demi::testing
