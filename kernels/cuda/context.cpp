#include "kernels/cuda/context.h"

#include <vector>

#include <demi/error.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn/tuned_engines.h"
#include "kernels/cuda/device_properties.h"
#include "src/core/check.h"

namespace demi::cuda {

/// Device words handed out one by one. They are never freed before the context: kernels keep
/// theirs.
struct Context::CounterPool {
  static constexpr std::size_t kWordsPerPage = 1024;

  CounterPool() = default;
  ~CounterPool() {
    for (unsigned* page : pages) (void)cudaFree(page);
  }
  CounterPool(const CounterPool&) = delete;
  CounterPool& operator=(const CounterPool&) = delete;

  /// Zero for all that is queued on `stream` from now on. cudaMemset would fill on a stream that
  /// ours does not wait for.
  unsigned* take(cudaStream_t stream) {
    if (pages.empty() || used == kWordsPerPage) {
      void* page = nullptr;
      DEMI_CUDA_CHECK(cudaMalloc(&page, kWordsPerPage * sizeof(unsigned)));
      pages.push_back(static_cast<unsigned*>(page));
      DEMI_CUDA_CHECK(cudaMemsetAsync(page, 0, kWordsPerPage * sizeof(unsigned), stream));
      used = 0;
    }
    return pages.back() + used++;
  }

  std::vector<unsigned*> pages;
  std::size_t used = 0;
};

Context::Context(int ordinal, Options options)
    : options_(options),
      ordinal_(ordinal),
      counters_(std::make_unique<CounterPool>()),
      tuned_engines_(std::make_unique<cudnn::TunedEngines>()) {
  DEMI_CUDA_CHECK(cudaSetDevice(ordinal));
  properties_ = read_device_properties(ordinal);
  DEMI_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Context::Context(DeviceProperties properties, Options options)
    : properties_(std::move(properties)),
      options_(options),
      tuned_engines_(std::make_unique<cudnn::TunedEngines>()) {}

Context::~Context() {
  if (!has_device()) return;
  // At the end of the process CUDA may already be gone, and cuDNN's handle with it: destroying it
  // then would crash. After an error that no call recovers from there is nothing to give back.
  // Other errors do not come back.
  if (cudaStreamSynchronize(stream_) != cudaSuccess &&
      cudaStreamSynchronize(stream_) != cudaSuccess) {
    (void)counters_.release();
    return;
  }
  if (cudnn_ != nullptr) (void)cudnnDestroy(cudnn_);
  if (cublas_lt_ != nullptr) (void)cublasLtDestroy(cublas_lt_);
  counters_.reset();
  (void)cudaStreamDestroy(stream_);
}

cudnnHandle_t Context::cudnn() {
  DEMI_CHECK(has_device(), "a context without a device has no cuDNN handle");
  if (cudnn_ == nullptr) {
    DEMI_CUDA_CHECK(cudnnCreate(&cudnn_));
    DEMI_CUDA_CHECK(cudnnSetStream(cudnn_, stream_));
  }
  return cudnn_;
}

cublasLtHandle_t Context::cublas_lt() {
  DEMI_CHECK(has_device(), "a context without a device has no cuBLAS handle");
  if (cublas_lt_ == nullptr) DEMI_CUDA_CHECK(cublasLtCreate(&cublas_lt_));
  return cublas_lt_;
}

unsigned* Context::block_counter() {
  return has_device() ? counters_->take(stream_) : nullptr;
}

}  // namespace demi::cuda
