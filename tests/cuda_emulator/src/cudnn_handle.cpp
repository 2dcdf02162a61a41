// cuDNN's handles: a stream of the emulator. The installed library has none, for want of a GPU.
#include "tests/cuda_emulator/src/cudnn_real.h"
#include "tests/cuda_emulator/src/cudnn_records.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

Handles<CudnnHandle>& handles() {
  static auto* const all = new Handles<CudnnHandle>("cuDNN handle");
  return *all;
}

}  // namespace

std::shared_ptr<CudnnHandle> find_cudnn_handle(cudnnHandle_t handle, const char* call) {
  return handles().get(handle, call);
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  const Call call("cudnnCreate");
  clear_cudnn_failure();
  if (call.error() != cudaSuccess) {
    return cudnn_failure(CUDNN_STATUS_NOT_INITIALIZED, "the device has failed");
  }
  if (!has_real_cudnn()) return no_real_cudnn("cudnnCreate");
  if (handle == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  if (!real_cudnn_takes_device()) return CUDNN_STATUS_NOT_INITIALIZED;
  *handle = static_cast<cudnnHandle_t>(handles().create(std::make_shared<CudnnHandle>()));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const Call call("cudnnDestroy");
  clear_cudnn_failure();
  if (handles().destroy(handle, call.name()) == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const Call call("cudnnSetStream");
  clear_cudnn_failure();
  const auto object = handles().get(handle, call.name());
  if (object == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  object->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  const Call call("cudnnGetStream");
  clear_cudnn_failure();
  const auto object = handles().get(handle, call.name());
  if (object == nullptr || stream == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle or stream is null");
  }
  *stream = object->stream;
  return CUDNN_STATUS_SUCCESS;
}
