#include "kernels/cuda/cudnn/autotune.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "kernels/cuda/cudnn/measurement.h"
#include "kernels/cuda/timing.h"

namespace demi::cuda::cudnn {
namespace {

constexpr int kWarmUps = 2;
constexpr int kRuns = 5;

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
