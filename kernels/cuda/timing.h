// What measuring kernels on the device takes: memory to run them on and events between them.
#pragma once

#include <cstddef>

#include <string>

#include <cuda_runtime.h>

#include <demi/error.h>

#include "kernels/cuda/check.h"

namespace demi::cuda {

/// Zeroed device memory for the time of a measurement.
class Scratch {
 public:
  /// get() is null if there is too little free memory.
  Scratch(std::size_t bytes, cudaStream_t stream) {
    if (cudaMalloc(&address_, bytes) != cudaSuccess) {
      (void)cudaGetLastError();
      address_ = nullptr;
      return;
    }
    const cudaError_t status = cudaMemsetAsync(address_, 0, bytes, stream);
    if (status != cudaSuccess) (void)cudaFree(address_);  // nobody destroys what throws here
    DEMI_CUDA_CHECK(status);
  }
  ~Scratch() { (void)cudaFree(address_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::byte* get() const { return static_cast<std::byte*>(address_); }

 private:
  void* address_ = nullptr;
};

/// A point in a stream whose time is taken.
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

/// What one that cannot be run is said to take.
inline constexpr float kNever = 1e30F;

/// Calls `measure`, which runs something on `stream` and returns milliseconds: kNever, with the
/// error in `reason`, if it throws a DeviceError after which the stream can still be used.
template <class Measure>
[[nodiscard]] float milliseconds_of(cudaStream_t stream, std::string& reason, Measure&& measure) {
  try {
    return measure();
  } catch (const DeviceError& error) {
    if (cudaStreamSynchronize(stream) != cudaSuccess) throw;
    reason = error.what();
    return kNever;
  }
}

/// `bytes` up to the next multiple of 256, the alignment of libraries' workspaces.
[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

}  // namespace demi::cuda
