#include "kernels/cuda/scalars.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scalars.cuh"

namespace demi::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void one_instruction(ScalarInstruction instruction) {
  run_instruction(instruction);
}

__global__ void in_order(ScalarProgram program) {
  run_program(program);
}

__global__ void side_by_side(ScalarProgram program) {
  for (std::int64_t i = blockIdx.x; i < program.count; i += gridDim.x) {
    run_instruction(program.instructions[i]);
  }
}

/// How `kernel` joins a launch that begins with `first`; kAlone: it does not.
JoinedLaunch::Kind joins(const ScalarKernel& kernel, const Kernel& first) {
  using Kind = JoinedLaunch::Kind;
  const auto* scalar = dynamic_cast<const ScalarKernel*>(&first);
  if (scalar != nullptr && scalar->is_average() == kernel.is_average()) {
    return kernel.is_average() ? Kind::kSideBySide : Kind::kInOrder;
  }
  const bool carried = dynamic_cast<const CarryingKernel*>(&first) != nullptr;
  return carried && !kernel.is_average() ? Kind::kCarried : Kind::kAlone;
}

}  // namespace

void ScalarKernel::run(const KernelArguments& arguments) {
  launch(&one_instruction, 1, is_average() ? kThreads : 32, 0, context_.stream(),
         instruction(arguments));
}

void run_in_order(const ScalarProgram& program, cudaStream_t stream) {
  launch(&in_order, 1, 32, 0, stream, program);
}

void run_side_by_side(const ScalarProgram& program, cudaStream_t stream) {
  launch(&side_by_side, blocks_for(program.count, 1), kThreads, 0, stream, program);
}

std::vector<JoinedLaunch> join_launches(std::span<Kernel* const> kernels) {
  using Kind = JoinedLaunch::Kind;
  std::vector<JoinedLaunch> launches;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto* kernel = dynamic_cast<const ScalarKernel*>(kernels[i]);
    if (kernel != nullptr && !launches.empty()) {
      const Kind kind = joins(*kernel, *kernels[launches.back().first]);
      if (kind != Kind::kAlone) {
        launches.back().kind = kind;
        ++launches.back().joined;
        continue;
      }
    }
    launches.push_back({.first = i});
  }
  return launches;
}

}  // namespace demi::cuda
