#include "kernels/cuda/trial.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include <cudnn.h>
#include <fmt/format.h>

#include <demi/error.h>

#include "kernels/cuda/cudnn/measurement.h"
#include "kernels/cuda/cudnn/tuned_engines.h"
#include "kernels/cuda/timing.h"

namespace demi::cuda {
namespace {

constexpr int kRounds = 5;
constexpr const char* kTooLittleMemory = "there is too little free memory to try it";

/// Zeroed operands of a request.
class Operands {
 public:
  Operands(const KernelRequest& request, std::size_t workspace, cudaStream_t stream)
      : scratch_(bytes_of(request) + padded(workspace) + kAlignment, stream) {
    std::byte* next = scratch_.get();
    if (next == nullptr) return;
    for (const TensorType& input : request.inputs) {
      inputs_.push_back(next);
      next += padded(input.bytes());
    }
    for (const TensorType& output : request.outputs) {
      outputs_.push_back(next);
      next += padded(output.bytes());
    }
    workspace_ = next;
  }

  [[nodiscard]] bool exist() const { return scratch_.get() != nullptr; }
  [[nodiscard]] KernelArguments arguments() const { return {inputs_, outputs_, workspace_}; }

 private:
  static constexpr std::size_t kAlignment = 256;

  static std::size_t bytes_of(const KernelRequest& request) {
    std::size_t bytes = 0;
    for (const TensorType& input : request.inputs) bytes += padded(input.bytes());
    for (const TensorType& output : request.outputs) bytes += padded(output.bytes());
    return bytes;
  }

  Scratch scratch_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::byte* workspace_ = nullptr;
};

std::string failure_on(const Operands& operands, Kernel& kernel, Context& context) {
  try {
    kernel.run(operands.arguments());
    DEMI_CUDA_CHECK(cudaStreamSynchronize(context.stream()));
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

/// Everything that a choice depends on.
std::string key_of(const KernelRequest& request, const Context& context) {
  const DeviceProperties& device = context.properties();
  std::string types;
  for (const TensorType& input : request.inputs) types += input.to_string() + " ";
  types += "->";
  for (const TensorType& output : request.outputs) types += " " + output.to_string();
  return fmt::format("cudnn {} or own | {} sm_{} | {} {{{}}} {}", cudnnGetVersion(), device.name,
                     device.compute_capability, request.op, request.attributes.to_string(), types);
}

}  // namespace

std::string failure_of(Kernel& kernel, const KernelRequest& request, Context& context) {
  const Operands operands(request, kernel.workspace_bytes(), context.stream());
  return operands.exist() ? failure_on(operands, kernel, context) : kTooLittleMemory;
}

bool is_faster(Kernel& rival, Kernel& first, const KernelRequest& request, Context& context) {
  const std::string key = key_of(request, context);
  // One choice for all equal requests: the two may round differently.
  if (const auto known = context.tuned_engines().find(key)) return known->engine == 1;
  const Operands operands(request, std::max(first.workspace_bytes(), rival.workspace_bytes()),
                          context.stream());
  if (!operands.exist()) {
    std::fprintf(stderr, "[%s] %s beside cuDNN; the own kernel is used\n",
                 std::string(request.op).c_str(), kTooLittleMemory);
    return false;
  }
  std::size_t chosen = 0;
  if (failure_on(operands, rival, context).empty()) {
    const std::array<Kernel*, 2> kernels = {&first, &rival};
    std::array<cudnn::Measurement, 2> least = {
        {{kNever, first.workspace_bytes()}, {kNever, rival.workspace_bytes()}}};
    Event start, end;
    // By turns, so that a clock that changes meanwhile favours none; the first round warms up.
    for (int round = 0; round <= kRounds; ++round) {
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        start.record(context.stream());
        kernels[i]->run(operands.arguments());
        end.record(context.stream());
        const float milliseconds = end.milliseconds_since(start);
        if (round > 0) least[i].milliseconds = std::min(least[i].milliseconds, milliseconds);
      }
    }
    chosen = cudnn::preferred(least);
  }
  context.tuned_engines().keep(key, {.engine = static_cast<std::int64_t>(chosen), .knobs = {}});
  return chosen == 1;
}

}  // namespace demi::cuda
