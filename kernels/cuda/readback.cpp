#include <utility>

#include "kernels/cuda/check.h"
#include "kernels/cuda/memory.h"

namespace demi::cuda {
namespace {

class CudaReadback final : public Readback {
 public:
  CudaReadback(std::shared_ptr<Context> context, std::shared_ptr<const DeviceMemory> memory)
      : context_(std::move(context)), memory_(std::move(memory)) {
    DEMI_CUDA_CHECK(cudaHostAlloc(&copy_, memory_->bytes(), 0));
    const cudaError_t status = cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming);
    if (status != cudaSuccess) (void)cudaFreeHost(copy_);
    DEMI_CUDA_CHECK(status);
  }
  ~CudaReadback() override {
    (void)cudaEventSynchronize(arrived_);
    (void)cudaEventDestroy(arrived_);
    (void)cudaFreeHost(copy_);
  }

  void start() override {
    DEMI_CUDA_CHECK(cudaMemcpyAsync(copy_, memory_->address(), memory_->bytes(),
                                    cudaMemcpyDeviceToHost, context_->stream()));
    DEMI_CUDA_CHECK(cudaEventRecord(arrived_, context_->stream()));
  }
  [[nodiscard]] bool is_ready() override {
    const cudaError_t status = cudaEventQuery(arrived_);
    if (status == cudaErrorNotReady) return false;
    DEMI_CUDA_CHECK(status);
    return true;
  }
  [[nodiscard]] const std::byte* bytes() const override {
    return static_cast<const std::byte*>(copy_);
  }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<const DeviceMemory> memory_;
  void* copy_ = nullptr;
  cudaEvent_t arrived_ = nullptr;
};

}  // namespace

std::unique_ptr<Readback> make_device_readback(std::shared_ptr<Context> context,
                                               std::shared_ptr<const DeviceMemory> memory) {
  return std::make_unique<CudaReadback>(std::move(context), std::move(memory));
}

}  // namespace demi::cuda
