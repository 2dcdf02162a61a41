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

std::optional<std::size_t> fastest(std::span<Plan> plans, cudaStream_t stream,
                                   std::string& reason) {
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
    const float milliseconds = milliseconds_of(stream, reason, [&] {
      for (int i = 0; i < kWarmUps; ++i) plan.run(pointers, next);
      start.record(stream);
      for (int i = 0; i < kRuns; ++i) plan.run(pointers, next);
      end.record(stream);
      return end.milliseconds_since(start) / kRuns;
    });
    measurements.push_back({milliseconds, plan.workspace_bytes()});
  }
  const std::size_t best = preferred(measurements);
  if (measurements[best].milliseconds == kNever) return std::nullopt;
  return best;
}

}  // namespace demi::cuda::cudnn
