#include "tests/cuda_emulator/src/cudnn_legacy.h"

#include <algorithm>
#include <set>
#include <string>

#include "tests/cuda_emulator/src/cudnn_real.h"
#include "tests/cuda_emulator/src/cudnn_records.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

/// Those that are alive. Never destroyed: they may outlive static objects.
std::set<const void*>& descriptors() {
  static auto* const set = [] {
    auto* created = new std::set<const void*>;
    internal::register_leak_counter("cuDNN descriptor", [created] { return created->size(); });
    return created;
  }();
  return *set;
}

/// Creates with the installed library's function.
template <class Function, class Descriptor>
cudnnStatus_t create(const char* call, Function make, Descriptor* descriptor) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  if (!has_real_cudnn()) return no_real_cudnn(call);
  const cudnnStatus_t status = make()(descriptor);
  if (status == CUDNN_STATUS_SUCCESS) descriptors().insert(*descriptor);
  return status;
}

template <class Function, class Descriptor>
cudnnStatus_t destroy(const char* call, Function destroy, Descriptor descriptor) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  check_descriptor(descriptor, call);
  descriptors().erase(descriptor);
  return has_real_cudnn() ? destroy()(descriptor) : no_real_cudnn(call);
}

/// Calls the installed library's function, of which the first argument is a live descriptor.
template <class Function, class Descriptor, class... Arguments>
cudnnStatus_t forward(const char* call, Function function, Descriptor descriptor,
                      Arguments... arguments) {
  const std::lock_guard lock(mutex());
  clear_cudnn_failure();
  if (!has_real_cudnn()) return no_real_cudnn(call);
  check_descriptor(descriptor, call);
  return function()(descriptor, arguments...);
}

}  // namespace

void check_descriptor(const void* descriptor, const char* call) {
  if (descriptor != nullptr && descriptors().count(descriptor) == 0) {
    fatal(std::string(call) + ": the cuDNN descriptor was destroyed before, or never created");
  }
}

cudnnStatus_t read_tensor(cudnnTensorDescriptor_t descriptor, const char* call,
                          StridedTensor& tensor) {
  check_descriptor(descriptor, call);
  if (descriptor == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a tensor descriptor is null");
  }
  constexpr int kMost = CUDNN_DIM_MAX;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int count = 0, extents[kMost] = {}, strides[kMost] = {};
  const cudnnStatus_t status = DEMI_REAL_CUDNN(cudnnGetTensorNdDescriptor)(
      descriptor, kMost, &type, &count, extents, strides);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const auto format = format_of(type);
  if (!format || count != 4) {
    return cudnn_failure(CUDNN_STATUS_NOT_SUPPORTED, "expected a floating tensor of 4 dimensions");
  }
  tensor.format = *format;
  std::copy_n(extents, 4, tensor.extents.begin());
  std::copy_n(strides, 4, tensor.strides.begin());
  return CUDNN_STATUS_SUCCESS;
}

Blend read_blend(Format format, const void* alpha, const void* beta) {
  const Format scale = format == Format::kDouble ? Format::kDouble : Format::kFloat;
  return {load_one<double>(scale, alpha), load_one<double>(scale, beta)};
}

cudnnStatus_t begin_cudnn_call(cudaError_t error, cudnnHandle_t handle, const char* call,
                               cudaStream_t& stream) {
  clear_cudnn_failure();
  if (error != cudaSuccess) {
    return cudnn_failure(CUDNN_STATUS_EXECUTION_FAILED_CUDART, cudaGetErrorString(error));
  }
  const auto owner = find_cudnn_handle(handle, call);
  if (owner == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the handle is null");
  }
  stream = owner->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t enqueue_cudnn(cudaStream_t stream, const char* call, std::function<void()> work) {
  const cudaError_t error = enqueue(stream, call, std::move(work));
  if (error == cudaSuccess) return CUDNN_STATUS_SUCCESS;
  return cudnn_failure(CUDNN_STATUS_EXECUTION_FAILED_CUDART, cudaGetErrorString(error));
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

// A forwarded call: its name as text, and a function that gives the installed library's.
#define REAL(name)                \
#name, []() -> const auto& {    \
    return DEMI_REAL_CUDNN(name); \
  }

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* descriptor) {
  return create(REAL(cudnnCreateTensorDescriptor), descriptor);
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  return destroy(REAL(cudnnDestroyTensorDescriptor), descriptor);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnTensorFormat_t format, cudnnDataType_t type, int n,
                                         int c, int h, int w) {
  return forward(REAL(cudnnSetTensor4dDescriptor), descriptor, format, type, n, c, h, w);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type,
                                           int n, int c, int h, int w, int n_stride, int c_stride,
                                           int h_stride, int w_stride) {
  return forward(REAL(cudnnSetTensor4dDescriptorEx), descriptor, type, n, c, h, w, n_stride,
                 c_stride, h_stride, w_stride);
}

cudnnStatus_t cudnnGetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t* type,
                                         int* n, int* c, int* h, int* w, int* n_stride,
                                         int* c_stride, int* h_stride, int* w_stride) {
  return forward(REAL(cudnnGetTensor4dDescriptor), descriptor, type, n, c, h, w, n_stride, c_stride,
                 h_stride, w_stride);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type,
                                         int count, const int extents[], const int strides[]) {
  return forward(REAL(cudnnSetTensorNdDescriptor), descriptor, type, count, extents, strides);
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t descriptor,
                                           cudnnTensorFormat_t format, cudnnDataType_t type,
                                           int count, const int extents[]) {
  return forward(REAL(cudnnSetTensorNdDescriptorEx), descriptor, format, type, count, extents);
}

cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, int limit,
                                         cudnnDataType_t* type, int* count, int extents[],
                                         int strides[]) {
  return forward(REAL(cudnnGetTensorNdDescriptor), descriptor, limit, type, count, extents,
                 strides);
}

cudnnStatus_t cudnnGetTensorSizeInBytes(cudnnTensorDescriptor_t descriptor, size_t* bytes) {
  return forward(REAL(cudnnGetTensorSizeInBytes), descriptor, bytes);
}

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived,
                                            cudnnTensorDescriptor_t x, cudnnBatchNormMode_t mode) {
  {
    const std::lock_guard lock(mutex());
    check_descriptor(x, "cudnnDeriveBNTensorDescriptor");
  }
  return forward(REAL(cudnnDeriveBNTensorDescriptor), derived, x, mode);
}

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* descriptor) {
  return create(REAL(cudnnCreatePoolingDescriptor), descriptor);
}

cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t descriptor) {
  return destroy(REAL(cudnnDestroyPoolingDescriptor), descriptor);
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor,
                                          cudnnPoolingMode_t mode, cudnnNanPropagation_t nans,
                                          int window_h, int window_w, int padding_h, int padding_w,
                                          int stride_h, int stride_w) {
  return forward(REAL(cudnnSetPooling2dDescriptor), descriptor, mode, nans, window_h, window_w,
                 padding_h, padding_w, stride_h, stride_w);
}

cudnnStatus_t cudnnGetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor,
                                          cudnnPoolingMode_t* mode, cudnnNanPropagation_t* nans,
                                          int* window_h, int* window_w, int* padding_h,
                                          int* padding_w, int* stride_h, int* stride_w) {
  return forward(REAL(cudnnGetPooling2dDescriptor), descriptor, mode, nans, window_h, window_w,
                 padding_h, padding_w, stride_h, stride_w);
}

cudnnStatus_t cudnnGetPooling2dForwardOutputDim(cudnnPoolingDescriptor_t descriptor,
                                                cudnnTensorDescriptor_t x, int* n, int* c, int* h,
                                                int* w) {
  {
    const std::lock_guard lock(mutex());
    check_descriptor(x, "cudnnGetPooling2dForwardOutputDim");
  }
  return forward(REAL(cudnnGetPooling2dForwardOutputDim), descriptor, x, n, c, h, w);
}
