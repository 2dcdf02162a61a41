#include <cmath>
#include <thread>

#include "cuda_emulator/device.h"
#include "tests/cuda_emulator/emulator_fixture.h"

namespace demi::testing {
namespace {

using cuda_emulator::launch_kernel;

using GraphDeathTest = EmulatorTest;

__global__ void add(float* to, const float* from) {
  *to += *from;
}
__global__ void set(float* to, float value) {
  *to = value;
}

/// A stream, and a device float that its kernels change.
class CudaGraph : public EmulatorTest {
 protected:
  void SetUp() override {
    EmulatorTest::SetUp();
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    EXPECT_CUDA(cudaMalloc(&x_, 2 * sizeof(float)));
    EXPECT_CUDA(cudaMemset(x_, 0, 2 * sizeof(float)));
  }
  void TearDown() override {
    EXPECT_CUDA(cudaFree(x_));
    EXPECT_CUDA(cudaStreamDestroy(stream_));
    EmulatorTest::TearDown();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    EXPECT_CUDA(cudaStreamBeginCapture(stream_, mode));
  }
  /// The end of a capture that must succeed.
  [[nodiscard]] cudaGraphExec_t end() {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamEndCapture(stream_, &graph));
    EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes_));
    cudaGraphExec_t executable = nullptr;
    EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    EXPECT_CUDA(cudaGraphDestroy(graph));
    return executable;
  }
  /// The end of a capture that must fail.
  void expect_end(cudaError_t error) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), error);
    EXPECT_EQ(graph, nullptr);
  }
  void increment(cudaStream_t stream) {
    EXPECT_CUDA(launch_kernel(add, 1, 1, 0, stream, x_, x_ + 1));
  }
  [[nodiscard]] float x() const {
    float value = 0;
    EXPECT_CUDA(cudaMemcpyAsync(&value, x_, 4, cudaMemcpyDeviceToHost, stream_));
    return value;
  }

  cudaStream_t stream_ = nullptr;
  float* x_ = nullptr;
  std::size_t nodes_ = 0;
};

TEST_F(CudaGraph, ReplaysWhatWasCaptured) {
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream_, x_ + 1, 1.0f));
  begin();
  increment(stream_);
  increment(stream_);
  const cudaGraphExec_t graph = end();
  EXPECT_EQ(nodes_, 2u);
  EXPECT_EQ(x(), 0.0f);  // Nothing ran at the capture.
  const auto before = counters();
  for (int i = 0; i < 3; ++i) EXPECT_CUDA(cudaGraphLaunch(graph, stream_));
  EXPECT_EQ(x(), 6.0f);
  EXPECT_EQ(counters().graph_launches, before.graph_launches + 3);
  EXPECT_EQ(counters().kernel_launches, before.kernel_launches);
  EXPECT_CUDA(cudaGraphExecDestroy(graph));
}

TEST_F(CudaGraph, ArgumentsAreFrozen) {
  float value = 1.0f;
  begin();
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream_, x_, value));
  const cudaGraphExec_t graph = end();
  value = 2.0f;
  EXPECT_CUDA(cudaGraphLaunch(graph, stream_));
  EXPECT_EQ(x(), 1.0f);
  EXPECT_CUDA(cudaGraphExecDestroy(graph));
}

TEST_F(CudaGraph, AnExecutableGraphMayBeDestroyedBeforeItRuns) {
  begin();
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream_, x_, 1.0f));
  const cudaGraphExec_t graph = end();
  EXPECT_CUDA(cudaGraphLaunch(graph, stream_));
  EXPECT_CUDA(cudaGraphExecDestroy(graph));
  EXPECT_EQ(x(), 1.0f);
}

TEST_F(CudaGraph, ACapturedCopyPoisonsItsDestinationAtTheLaunch) {
  const PinnedArray<float> y(1);
  y[0] = 7.0f;
  begin();
  EXPECT_CUDA(cudaMemcpyAsync(y.data(), x_, 4, cudaMemcpyDeviceToHost, stream_));
  const cudaGraphExec_t graph = end();
  EXPECT_EQ(y[0], 7.0f);
  EXPECT_CUDA(cudaGraphLaunch(graph, stream_));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_CUDA(cudaStreamSynchronize(stream_));
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_CUDA(cudaGraphExecDestroy(graph));
}

/// x = 1 on one stream, x *= 2 on another that was forked, and joined after it; `wait`: in order.
float run_forked(cudaStream_t stream, float* x, bool wait) {
  const TestStream other;
  const TestEvent fork, between, join;
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA(cudaEventRecord(fork, stream));
  EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, stream, x, 1.0f));
  if (wait) {
    EXPECT_CUDA(cudaEventRecord(between, stream));
    EXPECT_CUDA(cudaStreamWaitEvent(other, between, 0));
  }
  EXPECT_CUDA(launch_kernel(add, 1, 1, 0, other, x, x));
  EXPECT_CUDA(cudaEventRecord(join, other));
  EXPECT_CUDA(cudaStreamWaitEvent(stream, join, 0));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  EXPECT_CUDA(cudaGraphLaunch(executable, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaGraphExecDestroy(executable));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  float value = 0;
  EXPECT_CUDA(cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost));
  return value;
}

TEST_F(CudaGraph, BranchesRunInAnyOrderThatTheirEdgesAllow) {
  bool wrong = false;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    demi_emulator_set_seed(seed);
    EXPECT_EQ(run_forked(stream_, x_, true), 2.0f);
    wrong = wrong || run_forked(stream_, x_, false) != 2.0f;
  }
  EXPECT_TRUE(wrong);
}

TEST_F(CudaGraph, TellsWhetherAStreamIsCaptured) {
  cudaStreamCaptureStatus status;
  EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  begin();
  EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_CUDA(cudaStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

// ---- What a capture forbids
// -------------------------------------------------------------------------

TEST_F(CudaGraph, WaitingForACapturedStreamInvalidatesTheCapture) {
  begin();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(launch_kernel(set, 1, 1, 0, stream_, x_, 1.0f), cudaErrorStreamCaptureInvalidated);
  expect_end(cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudaGraph, CallsThatMayWaitInvalidateTheCapture) {
  void* address = nullptr;
  float host = 0;
  begin();
  EXPECT_EQ(cudaMalloc(&address, 4), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaFree(x_), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaHostAlloc(&address, 4, 0), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
  begin();
  EXPECT_EQ(cudaMemcpy(&host, x_, 4, cudaMemcpyDeviceToHost), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudaGraph, OtherThreadsMayMakeSuchCallsUnlessTheCaptureIsGlobal) {
  const auto allocate = [] {
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      void* address = nullptr;
      error = cudaMalloc(&address, 4);
      (void)cudaFree(address);
    }).join();
    return error;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(allocate(), cudaSuccess);
  EXPECT_CUDA(cudaGraphExecDestroy(end()));
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(allocate(), cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudaGraph, ARelaxedCaptureForbidsNoAllocations) {
  begin(cudaStreamCaptureModeRelaxed);
  { const DeviceArray<float> y(1); }
  EXPECT_CUDA(cudaGraphExecDestroy(end()));
}

TEST_F(CudaGraph, PageableMemoryCannotBeCaptured) {
  float host = 0;
  begin();
  EXPECT_EQ(cudaMemcpyAsync(x_, &host, 4, cudaMemcpyHostToDevice, stream_),
            cudaErrorStreamCaptureUnsupported);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudaGraph, OtherStreamsAreNotCaptured) {
  const TestStream other;
  begin();
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, other, x_, 3.0f));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_CUDA(cudaGraphExecDestroy(end()));
  EXPECT_EQ(nodes_, 0u);
  EXPECT_EQ(x(), 3.0f);
}

TEST_F(CudaGraph, TheLegacyStreamMayNotDependOnACapturedBlockingStream) {
  const TestStream blocking(cudaStreamDefault);
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
  EXPECT_EQ(launch_kernel(set, 1, 1, 0, nullptr, x_, 1.0f), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
  // A non-blocking stream has nothing to do with it.
  begin();
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, nullptr, x_, 1.0f));
  EXPECT_CUDA(cudaGraphExecDestroy(end()));
}

TEST_F(CudaGraph, TheLegacyStreamCannotBeCaptured) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureUnsupported);
}

TEST_F(CudaGraph, WorkThatIsNotJoinedIsAnError) {
  const TestStream other;
  const TestEvent fork;
  begin();
  EXPECT_CUDA(cudaEventRecord(fork, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, other, x_, 1.0f));
  expect_end(cudaErrorStreamCaptureUnjoined);
  // The streams are usable again.
  EXPECT_CUDA(launch_kernel(set, 1, 1, 0, other, x_, 2.0f));
  EXPECT_CUDA(cudaStreamSynchronize(other));
  EXPECT_EQ(x(), 2.0f);
}

TEST_F(CudaGraph, EndsInTheStreamAndThreadWhereItBegan) {
  const TestStream other;
  const TestEvent fork;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  EXPECT_CUDA(cudaEventRecord(fork, stream_));
  EXPECT_CUDA(cudaStreamWaitEvent(other, fork, 0));
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureUnmatched);
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = cudaStreamEndCapture(stream_, &graph); }).join();
  EXPECT_EQ(error, cudaErrorStreamCaptureWrongThread);
  EXPECT_CUDA(cudaGraphExecDestroy(end()));
}

TEST_F(CudaGraph, TwoCapturesCannotBeMerged) {
  const TestStream other;
  const TestEvent event;
  cudaGraph_t graph = nullptr;
  begin();
  EXPECT_CUDA(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA(cudaEventRecord(event, other));
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureInvalidated);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudaGraph, ACaptureMayNotWaitForWorkOutside) {
  const TestStream other;
  const TestEvent event;
  EXPECT_CUDA(cudaEventRecord(event, other));
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaErrorStreamCaptureIsolation);
  expect_end(cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudaGraph, CapturedEventsMarkNoTime) {
  const TestEvent event;
  begin();
  EXPECT_CUDA(cudaEventRecord(event, stream_));
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  expect_end(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaErrorCapturedEvent);
  EXPECT_CUDA(cudaEventRecord(event, stream_));
  EXPECT_CUDA(cudaEventSynchronize(event));
}

TEST_F(CudaGraph, DestroyingTheStreamAbandonsTheCapture) {
  cudaStream_t other = nullptr;
  EXPECT_CUDA(cudaStreamCreate(&other));
  EXPECT_CUDA(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
  EXPECT_CUDA(cudaStreamDestroy(other));
  const DeviceArray<float> y(1);  // No capture forbids it any more.
}

TEST_F(GraphDeathTest, DestroyedGraphsAreFatal) {
  const TestStream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  EXPECT_EQ(demi_emulator_leaks("graph"), 1u);
  EXPECT_EQ(demi_emulator_leaks("executable graph"), 1u);
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaGraphExecDestroy(executable));
  EXPECT_DEATH((void)cudaGraphDestroy(graph), "the graph was destroyed before");
  EXPECT_DEATH((void)cudaGraphLaunch(executable, stream), "the executable graph was destroyed");
}

}  // namespace
}  // namespace demi::testing
