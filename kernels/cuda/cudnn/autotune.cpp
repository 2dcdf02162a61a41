#include "kernels/cuda/cudnn/autotune.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn/measurement.h"

namespace demi::cuda::cudnn {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRuns = 5;

/// Zeroed device memory.
class Scratch {
 public:
  Scratch(std::size_t bytes, cudaStream_t stream) {
    if (cudaMalloc(&address_, bytes) != cudaSuccess) {
      (void)cudaGetLastError();
      address_ = nullptr;
      return;
    }
    DEMI_CUDA_CHECK(cudaMemsetAsync(address_, 0, bytes, stream));
  }
  ~Scratch() { (void)cudaFree(address_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::byte* get() const { return static_cast<std::byte*>(address_); }

 private:
  void* address_ = nullptr;
};

class Event {
 public:
  Event() { DEMI_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { DEMI_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  /// Waits for this event.
  [[nodiscard]] float milliseconds_since(const Event& start) const {
    DEMI_CUDA_CHECK(cudaEventSynchronize(event_));
    float milliseconds = 0;
    DEMI_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start.event_, event_));
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

std::size_t padded(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace

std::size_t fastest(std::span<Plan> plans, cudaStream_t stream) {
  if (plans.size() < 2) return 0;
  const std::vector<Graph::Tensor>& tensors = plans.front().graph().tensors();
  std::size_t bytes = 0;
  for (const Graph::Tensor& tensor : tensors) bytes += padded(tensor.bytes);
  std::size_t workspace = 0;
  for (const Plan& plan : plans) workspace = std::max(workspace, plan.workspace_bytes());
  const Scratch scratch(bytes + padded(workspace) + 256, stream);
  if (scratch.get() == nullptr) {
    std::fprintf(stderr, "[cudnn] too little free memory to time engines; the first is used\n");
    return 0;
  }
  std::vector<void*> pointers;
  std::byte* next = scratch.get();
  for (const Graph::Tensor& tensor : tensors) {
    pointers.push_back(next);
    next += padded(tensor.bytes);
  }
  Event start, end;
  std::vector<Measurement> measurements;
  for (Plan& plan : plans) {
    for (int i = 0; i < kWarmUps; ++i) plan.run(pointers, next);
    start.record(stream);
    for (int i = 0; i < kRuns; ++i) plan.run(pointers, next);
    end.record(stream);
    measurements.push_back({end.milliseconds_since(start) / kRuns, plan.workspace_bytes()});
  }
  return preferred(measurements);
}

}  // namespace demi::cuda::cudnn
