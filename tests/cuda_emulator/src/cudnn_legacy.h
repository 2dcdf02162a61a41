// Descriptors of cuDNN's API before operation graphs, which the installed library keeps, and what
// pooling and batch normalization share.
#pragma once

#include <functional>

#include <cudnn.h>

#include "tests/cuda_emulator/src/cudnn_tensor.h"

namespace cuda_emulator {

/// Fatal if the descriptor was destroyed or never created; null is allowed.
void check_descriptor(const void* descriptor, const char* call);

/// What was set on a descriptor: BAD_PARAM for a null or unset one, NOT_SUPPORTED for integers and
/// for other than 4 dimensions.
[[nodiscard]] cudnnStatus_t read_tensor(cudnnTensorDescriptor_t descriptor, const char* call,
                                        StridedTensor& tensor);

/// alpha and beta of a call: y = alpha · result + beta · y. They are double for double tensors.
struct Blend {
  double alpha, beta;
};
[[nodiscard]] Blend read_blend(Format format, const void* alpha, const void* beta);

/// The beginning of calls that run on the device: BAD_PARAM for a null handle, or the status of an
/// injected failure.
[[nodiscard]] cudnnStatus_t begin_cudnn_call(cudaError_t error, cudnnHandle_t handle,
                                             const char* call, cudaStream_t& stream);

/// enqueue() with cuDNN's status.
[[nodiscard]] cudnnStatus_t enqueue_cudnn(cudaStream_t stream, const char* call,
                                          std::function<void()> work);

}  // namespace cuda_emulator
