#include "kernels/cuda/sequence.h"

#include <utility>

#include "kernels/cuda/check.h"

namespace demi::cuda {
namespace {

/// Libraries build plans, load modules and create handles at their first calls, which a capture
/// does not allow.
constexpr int kWarmUpRuns = 2;

class CudaSequence final : public LaunchSequence {
 public:
  CudaSequence(std::shared_ptr<Context> context, std::vector<Launch> launches)
      : context_(std::move(context)), launches_(std::move(launches)) {}
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
  void launch_all() {
    for (const Launch& launch : launches_) {
      launch.kernel->run({launch.inputs, launch.outputs, launch.workspace});
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
  int runs_ = 0;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

std::unique_ptr<LaunchSequence> make_sequence(std::shared_ptr<Context> context,
                                              std::vector<Launch> launches) {
  return std::make_unique<CudaSequence>(std::move(context), std::move(launches));
}

}  // namespace demi::cuda
