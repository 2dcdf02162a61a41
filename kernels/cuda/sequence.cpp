#include "kernels/cuda/sequence.h"

#include <cstddef>
#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/scalars.h"

namespace demi::cuda {
namespace {

/// Libraries build plans, load modules and create handles at their first calls, which a capture
/// does not allow.
constexpr int kWarmUpRuns = 2;

class CudaSequence final : public LaunchSequence {
 public:
  CudaSequence(std::shared_ptr<Context> context, const std::string& device,
               std::vector<Launch> launches)
      : context_(std::move(context)), launches_(std::move(launches)) {
    std::vector<Kernel*> kernels;
    for (const Launch& launch : launches_) kernels.push_back(launch.kernel);
    joined_ = join_launches(kernels);
    store_programs(device);
  }
  ~CudaSequence() override {
    if (graph_ == nullptr) return;
    (void)cudaStreamSynchronize(context_->stream());
    (void)cudaGraphExecDestroy(graph_);
  }

  void run() override {
    if (runs_ < kWarmUpRuns) {
      launch_all();
      ++runs_;
      return;
    }
    if (graph_ == nullptr) graph_ = capture();
    DEMI_CUDA_CHECK(cudaGraphLaunch(graph_, context_->stream()));
  }

 private:
  [[nodiscard]] static KernelArguments arguments_of(const Launch& launch) {
    return {launch.inputs, launch.outputs, launch.workspace};
  }

  /// Puts the programs of all launches into device memory.
  void store_programs(const std::string& device) {
    std::vector<ScalarInstruction> instructions;
    std::vector<std::size_t> begins;
    for (const JoinedLaunch& joined : joined_) {
      begins.push_back(instructions.size());
      if (joined.kind == JoinedLaunch::Kind::kAlone) continue;
      const std::size_t skipped = joined.kind == JoinedLaunch::Kind::kCarried ? 1 : 0;
      for (std::size_t i = joined.first + skipped; i <= joined.first + joined.joined; ++i) {
        const auto& kernel = dynamic_cast<const ScalarKernel&>(*launches_[i].kernel);
        instructions.push_back(kernel.instruction(arguments_of(launches_[i])));
      }
    }
    begins.push_back(instructions.size());
    programs_.resize(joined_.size());
    if (instructions.empty()) return;
    const std::size_t bytes = instructions.size() * sizeof(ScalarInstruction);
    memory_ = allocate_device_memory(context_, device, bytes, "small operations");
    memory_->write(instructions.data(), 0, bytes);
    const auto* first = static_cast<const ScalarInstruction*>(memory_->address());
    for (std::size_t i = 0; i < joined_.size(); ++i) {
      programs_[i] = {first + begins[i], static_cast<std::int64_t>(begins[i + 1] - begins[i])};
    }
  }

  void launch_all() {
    for (std::size_t i = 0; i < joined_.size(); ++i) {
      const Launch& first = launches_[joined_[i].first];
      switch (joined_[i].kind) {
        case JoinedLaunch::Kind::kAlone:
          first.kernel->run(arguments_of(first));
          break;
        case JoinedLaunch::Kind::kCarried:
          dynamic_cast<CarryingKernel&>(*first.kernel).run_then(arguments_of(first), programs_[i]);
          break;
        case JoinedLaunch::Kind::kInOrder:
          run_in_order(programs_[i], context_->stream());
          break;
        case JoinedLaunch::Kind::kSideBySide:
          run_side_by_side(programs_[i], context_->stream());
          break;
      }
    }
  }

  [[nodiscard]] cudaGraphExec_t capture() {
    DEMI_CUDA_CHECK(cudaStreamBeginCapture(context_->stream(), cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      launch_all();
    } catch (...) {
      // A capture that is left open would poison the stream.
      (void)cudaStreamEndCapture(context_->stream(), &graph);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      throw;
    }
    DEMI_CUDA_CHECK(cudaStreamEndCapture(context_->stream(), &graph));
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    (void)cudaGraphDestroy(graph);
    DEMI_CUDA_CHECK(status);
    return executable;
  }

  std::shared_ptr<Context> context_;
  std::vector<Launch> launches_;
  std::vector<JoinedLaunch> joined_;
  std::vector<ScalarProgram> programs_;  // [launch of joined_]
  std::shared_ptr<DeviceMemory> memory_;
  int runs_ = 0;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<LaunchSequence> make_sequence(std::shared_ptr<Context> context,
                                              const std::string& device,
                                              std::vector<Launch> launches) {
  return std::make_unique<CudaSequence>(std::move(context), device, std::move(launches));
}

}  // namespace demi::cuda
