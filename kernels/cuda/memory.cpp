#include "kernels/cuda/memory.h"

#include <algorithm>
#include <atomic>

#include <demi/error.h>

#include "kernels/cuda/check.h"
#include "src/core/check.h"

namespace demi::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

[[noreturn]] void throw_out_of_memory(const Ledger& ledger, std::size_t bytes,
                                      const std::string& purpose) {
  std::size_t free = 0, total = 0;
  (void)cudaGetLastError();
  (void)cudaMemGetInfo(&free, &total);
  throw OutOfMemory("[memory] could not allocate " + std::to_string(bytes) + " bytes for " +
                    purpose + ": " + std::to_string(free) + " of " + std::to_string(total) +
                    " bytes of the device are free; held here: " + ledger.largest() +
                    ". A smaller batch or a mixed policy needs less.");
}

/// cudaMalloc with the message of OutOfMemory; zero bytes are given an address as well.
void* allocate(const Ledger& ledger, std::size_t bytes, const std::string& purpose) {
  void* address = nullptr;
  const cudaError_t status = cudaMalloc(&address, std::max<std::size_t>(bytes, kAlignment));
  if (status == cudaErrorMemoryAllocation) throw_out_of_memory(ledger, bytes, purpose);
  DEMI_CUDA_CHECK(status);
  return address;
}

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(std::shared_ptr<Context> context, std::string device, std::size_t bytes,
             std::string purpose)
      : DeviceMemory(std::move(device), allocate(context->ledger(), bytes, purpose), bytes),
        context_(std::move(context)),
        purpose_(std::move(purpose)) {
    context_->ledger().add(purpose_, bytes_);
  }
  ~CudaMemory() override {
    context_->ledger().remove(purpose_, bytes_);
    (void)cudaStreamSynchronize(context_->stream());
    (void)cudaFree(address_);
  }

  void fill_with_zeros() {
    DEMI_CUDA_CHECK(cudaMemsetAsync(address_, 0, std::max<std::size_t>(bytes_, kAlignment),
                                    context_->stream()));
  }

  void read(void* host, std::size_t offset, std::size_t count) const override {
    DEMI_CHECK(offset + count <= bytes_, "read past the end of a device allocation");
    if (count == 0) return;
    DEMI_CUDA_CHECK(cudaMemcpyAsync(host, static_cast<const char*>(address_) + offset, count,
                                    cudaMemcpyDeviceToHost, context_->stream()));
    DEMI_CUDA_CHECK(cudaStreamSynchronize(context_->stream()));
  }
  void write(const void* host, std::size_t offset, std::size_t count) override {
    DEMI_CHECK(offset + count <= bytes_, "write past the end of a device allocation");
    if (count == 0) return;
    DEMI_CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(address_) + offset, host, count,
                                    cudaMemcpyHostToDevice, context_->stream()));
    DEMI_CUDA_CHECK(cudaStreamSynchronize(context_->stream()));
  }

 private:
  std::shared_ptr<Context> context_;
  std::string purpose_;
};

// Note [Input transfers]
// Transfers run on a stream of their own, so that the batch of the next step travels while this one
// is computed. Three orders are kept: kernels wait for the transfer of their set (uploaded_), a
// transfer waits until the kernels that read the set before are done (consumed_), and the host
// waits until the last transfer has left the pinned memory (uploaded_) before it writes there
// again.
class CudaInputs final : public InputSet {
 public:
  CudaInputs(std::shared_ptr<Context> context, const std::vector<std::size_t>& bytes,
             const Allocator& allocate)
      : context_(std::move(context)),
        offsets_(input_offsets(bytes)),
        memory_(allocate(offsets_.back())) {
    try {
      DEMI_CUDA_CHECK(cudaHostAlloc(&host_, std::max(offsets_.back(), kAlignment), 0));
      DEMI_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
      DEMI_CUDA_CHECK(cudaEventCreateWithFlags(&uploaded_, cudaEventDisableTiming));
      DEMI_CUDA_CHECK(cudaEventCreateWithFlags(&consumed_, cudaEventDisableTiming));
      DEMI_CUDA_CHECK(cudaEventRecord(consumed_, context_->stream()));
    } catch (...) {
      free();
      throw;
    }
  }
  ~CudaInputs() override {
    (void)cudaStreamSynchronize(stream_);
    free();
  }

  [[nodiscard]] void* host(std::size_t index) override {
    if (in_flight_.exchange(false)) DEMI_CUDA_CHECK(cudaEventSynchronize(uploaded_));
    return static_cast<char*>(host_) + offsets_.at(index);
  }
  [[nodiscard]] void* address(std::size_t index) const override {
    return static_cast<char*>(memory_->address()) + offsets_.at(index);
  }
  void upload() override {
    if (offsets_.back() == 0) return;
    DEMI_CUDA_CHECK(cudaStreamWaitEvent(stream_, consumed_, 0));
    DEMI_CUDA_CHECK(cudaMemcpyAsync(memory_->address(), host_, offsets_.back(),
                                    cudaMemcpyHostToDevice, stream_));
    DEMI_CUDA_CHECK(cudaEventRecord(uploaded_, stream_));
    in_flight_ = true;
    DEMI_CUDA_CHECK(cudaStreamWaitEvent(context_->stream(), uploaded_, 0));
  }
  void release() override { DEMI_CUDA_CHECK(cudaEventRecord(consumed_, context_->stream())); }

 private:
  void free() {
    if (consumed_ != nullptr) (void)cudaEventDestroy(consumed_);
    if (uploaded_ != nullptr) (void)cudaEventDestroy(uploaded_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    if (host_ != nullptr) (void)cudaFreeHost(host_);
  }

  std::shared_ptr<Context> context_;
  std::vector<std::size_t> offsets_;
  std::shared_ptr<DeviceMemory> memory_;
  void* host_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t uploaded_ = nullptr;
  cudaEvent_t consumed_ = nullptr;
  std::atomic<bool> in_flight_ = false;  ///< a transfer that host() has not waited for
};

}  // namespace

std::shared_ptr<DeviceMemory> allocate_device_memory(std::shared_ptr<Context> context,
                                                     const std::string& device, std::size_t bytes,
                                                     const std::string& purpose) {
  auto memory = std::make_shared<CudaMemory>(std::move(context), device, bytes, purpose);
  memory->fill_with_zeros();
  return memory;
}

std::unique_ptr<InputSet> allocate_device_inputs(std::shared_ptr<Context> context,
                                                 const std::vector<std::size_t>& bytes,
                                                 const Allocator& allocate) {
  return std::make_unique<CudaInputs>(std::move(context), bytes, allocate);
}

}  // namespace demi::cuda
