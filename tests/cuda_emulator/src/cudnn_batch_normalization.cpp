// cuDNN's batch normalization in the API before operation graphs. Not emulated: statistics per
// activation, fused addition and activation.
#include <array>
#include <string>

#include "tests/cuda_emulator/src/cudnn_real.h"
#include "tests/cuda_emulator/src/memory_check.h"
#include "tests/cuda_emulator/src/normalization.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

/// Of an operation without fusion; a number that no fixed size fits.
std::size_t workspace_bytes(const StridedTensor& x) {
  return static_cast<std::size_t>(x.extents[1]) * 16 + 24;
}

cudnnStatus_t read_like(cudnnTensorDescriptor_t descriptor, const char* call,
                        const StridedTensor& like, StridedTensor& tensor) {
  const cudnnStatus_t status = read_tensor(descriptor, call, tensor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (tensor.extents == like.extents && tensor.format == like.format) return status;
  return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "tensors differ in extents or type");
}

cudnnStatus_t read_normalization(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x,
                                 cudnnTensorDescriptor_t statistics, double epsilon,
                                 const char* call, Normalization& shape) {
  cudnnStatus_t status = read_tensor(x, call, shape.tensor);
  StridedTensor vector;
  if (status == CUDNN_STATUS_SUCCESS) status = read_tensor(statistics, call, vector);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (mode == CUDNN_BATCHNORM_PER_ACTIVATION) fatal(std::string(call) + ": only per channel");
  if (mode != CUDNN_BATCHNORM_SPATIAL && mode != CUDNN_BATCHNORM_SPATIAL_PERSISTENT) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "unknown mode");
  }
  shape.statistics = shape.tensor.format == Format::kDouble ? Format::kDouble : Format::kFloat;
  if (vector.format != shape.statistics ||
      vector.extents != std::array<std::int64_t, 4>{1, shape.tensor.extents[1], 1, 1}) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM,
                         "scale, bias and statistics must be 1 x C x 1 x 1, float (or double)");
  }
  if (!(epsilon >= CUDNN_BN_MIN_EPSILON)) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "epsilon is below CUDNN_BN_MIN_EPSILON");
  }
  shape.epsilon = epsilon;
  return CUDNN_STATUS_SUCCESS;
}

template <class... Pointers>
bool any_null(Pointers... pointers) {
  return ((pointers == nullptr) || ...);
}

cudnnStatus_t null_address() {
  return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an address is null");
}

cudnnStatus_t half_given() {
  return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "statistics must both be given, or neither");
}

/// The workspace that the Ex functions take.
struct Workspace {
  void* address;
  std::size_t bytes;
};

/// Checks the workspace, if the function takes one, and poisons what is needed of it.
cudnnStatus_t enqueue_with(const Workspace* workspace, const Normalization& shape,
                           cudaStream_t stream, MemoryCheck& memory, const char* call,
                           std::function<void()> work) {
  if (workspace == nullptr) return enqueue_cudnn(stream, call, std::move(work));
  const std::size_t needed = workspace_bytes(shape.tensor);
  if (workspace->address == nullptr || workspace->bytes < needed) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM,
                         "the workspace is smaller than " + std::to_string(needed) + " bytes");
  }
  memory.add_written("the workspace", workspace->address, workspace->bytes);
  return enqueue_cudnn(stream, call, [=, address = workspace->address] {
    poison(address, needed);
    work();
  });
}

cudnnStatus_t train(cudaStream_t stream, const char* call, const ForwardNormalization& work,
                    const NormalizationResults& results, const Workspace* workspace) {
  if (any_null(work.x, work.y, work.scale, work.bias)) return null_address();
  if ((results.running_mean == nullptr) != (results.running_variance == nullptr) ||
      (results.saved_mean == nullptr) != (results.saved_inverse == nullptr)) {
    return half_given();
  }
  const Normalization& shape = work.shape;
  MemoryCheck memory(call);
  memory.add_read("x", work.x, shape.tensor.bytes());
  memory.add_written("y", work.y, shape.second.bytes());
  memory.add_read("scale", work.scale, shape.vector_bytes());
  memory.add_read("bias", work.bias, shape.vector_bytes());
  for (void* vector : {results.running_mean, results.running_variance, results.saved_mean,
                       results.saved_inverse}) {
    if (vector != nullptr) memory.add_written("a statistic", vector, shape.vector_bytes());
  }
  return enqueue_with(workspace, shape, stream, memory, call, [=] { normalize(work, results); });
}

cudnnStatus_t train_backward(cudaStream_t stream, const char* call,
                             const BackwardNormalization& work, const Workspace* workspace) {
  if (any_null(work.x, work.dy, work.dx, work.scale, work.dscale, work.dbias)) {
    return null_address();
  }
  if ((work.saved_mean == nullptr) != (work.saved_inverse == nullptr)) return half_given();
  const Normalization& shape = work.shape;
  MemoryCheck memory(call);
  memory.add_read("x", work.x, shape.tensor.bytes());
  memory.add_read("dy", work.dy, shape.second.bytes());
  memory.add_written("dx", work.dx, shape.third.bytes());
  memory.add_read("scale", work.scale, shape.vector_bytes());
  memory.add_written("the gradient of scale", work.dscale, shape.vector_bytes());
  memory.add_written("the gradient of bias", work.dbias, shape.vector_bytes());
  for (const void* vector : {work.saved_mean, work.saved_inverse}) {
    if (vector != nullptr) memory.add_read("a saved statistic", vector, shape.vector_bytes());
  }
  return enqueue_with(workspace, shape, stream, memory, call, [=] { normalize_backward(work); });
}

void check_operation(cudnnBatchNormOps_t operation, const char* call) {
  if (operation != CUDNN_BATCHNORM_OPS_BN) fatal(std::string(call) + ": fusion is not emulated");
}

/// alpha and beta as they are given.
struct Factors {
  const void *alpha, *beta;
};

/// The descriptors of a call.
struct Description {
  cudnnBatchNormMode_t mode;
  cudnnTensorDescriptor_t x, second, third;  ///< third: null if there is none
  cudnnTensorDescriptor_t statistics;
  double epsilon;

  [[nodiscard]] cudnnStatus_t read(const char* call, Normalization& shape) const {
    cudnnStatus_t status = read_normalization(mode, x, statistics, epsilon, call, shape);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    status = read_like(second, call, shape.tensor, shape.second);
    if (status != CUDNN_STATUS_SUCCESS || third == nullptr) return status;
    return read_like(third, call, shape.tensor, shape.third);
  }
};

cudnnStatus_t forward_training(const char* name, cudnnHandle_t handle,
                               const Description& description, const Factors& factors,
                               ForwardNormalization work, const NormalizationResults& results,
                               const Workspace* workspace) {
  const Call call(name);
  cudaStream_t stream = nullptr;
  cudnnStatus_t status = begin_cudnn_call(call.error(), handle, name, stream);
  if (status == CUDNN_STATUS_SUCCESS) status = description.read(name, work.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (any_null(factors.alpha, factors.beta)) return null_address();
  work.factors = read_blend(work.shape.tensor.format, factors.alpha, factors.beta);
  return train(stream, name, work, results, workspace);
}

cudnnStatus_t backward(const char* name, cudnnHandle_t handle, const Description& description,
                       const Factors& data, const Factors& parameters, BackwardNormalization work,
                       const Workspace* workspace) {
  const Call call(name);
  cudaStream_t stream = nullptr;
  cudnnStatus_t status = begin_cudnn_call(call.error(), handle, name, stream);
  if (status == CUDNN_STATUS_SUCCESS) status = description.read(name, work.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (any_null(data.alpha, data.beta, parameters.alpha, parameters.beta)) return null_address();
  const Format format = work.shape.tensor.format;
  work.data = read_blend(format, data.alpha, data.beta);
  work.parameters = read_blend(format, parameters.alpha, parameters.beta);
  return train_backward(stream, name, work, workspace);
}

cudnnStatus_t get_size(cudnnHandle_t handle, cudnnBatchNormOps_t operation,
                       cudnnTensorDescriptor_t x, const char* name, std::size_t* bytes,
                       bool is_workspace) {
  const Call call(name);
  cudaStream_t stream = nullptr;
  check_operation(operation, name);
  StridedTensor tensor;
  cudnnStatus_t status = begin_cudnn_call(call.error(), handle, name, stream);
  if (status == CUDNN_STATUS_SUCCESS) status = read_tensor(x, name, tensor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (bytes == nullptr) return null_address();
  *bytes = is_workspace ? workspace_bytes(tensor) : 0;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x_descriptor, const void* x, cudnnTensorDescriptor_t y_descriptor,
    void* y, cudnnTensorDescriptor_t statistics, const void* scale, const void* bias, double factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse) {
  return forward_training("cudnnBatchNormalizationForwardTraining", handle,
                          {mode, x_descriptor, y_descriptor, nullptr, statistics, epsilon},
                          {alpha, beta}, {{}, {}, x, scale, bias, y},
                          {factor, running_mean, running_variance, saved_mean, saved_inverse},
                          nullptr);
}

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operation,
    const void* alpha, const void* beta, cudnnTensorDescriptor_t x_descriptor, const void* x,
    cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t y_descriptor, void* y,
    cudnnTensorDescriptor_t statistics, const void* scale, const void* bias, double factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean,
    void* saved_inverse, cudnnActivationDescriptor_t, void* workspace, size_t workspace_size, void*,
    size_t) {
  const char* const call = "cudnnBatchNormalizationForwardTrainingEx";
  check_operation(operation, call);
  const Workspace given = {workspace, workspace_size};
  return forward_training(
      call, handle, {mode, x_descriptor, y_descriptor, nullptr, statistics, epsilon}, {alpha, beta},
      {{}, {}, x, scale, bias, y},
      {factor, running_mean, running_variance, saved_mean, saved_inverse}, &given);
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    cudnnTensorDescriptor_t x_descriptor, const void* x, cudnnTensorDescriptor_t y_descriptor,
    void* y, cudnnTensorDescriptor_t statistics, const void* scale, const void* bias,
    const void* mean, const void* variance, double epsilon) {
  const Call call("cudnnBatchNormalizationForwardInference");
  cudaStream_t stream = nullptr;
  const Description description = {mode, x_descriptor, y_descriptor, nullptr, statistics, epsilon};
  Normalization shape;
  cudnnStatus_t status = begin_cudnn_call(call.error(), handle, call.name(), stream);
  if (status == CUDNN_STATUS_SUCCESS) status = description.read(call.name(), shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (any_null(alpha, beta, x, y, scale, bias, mean, variance)) return null_address();
  MemoryCheck memory(call.name());
  memory.add_read("x", x, shape.tensor.bytes());
  memory.add_written("y", y, shape.second.bytes());
  for (const void* vector : {scale, bias, mean, variance}) {
    memory.add_read("a vector of the channels", vector, shape.vector_bytes());
  }
  const Blend factors = read_blend(shape.tensor.format, alpha, beta);
  const ForwardNormalization work = {shape, factors, x, scale, bias, y};
  return enqueue_cudnn(stream, call.name(), [=] { normalize(work, mean, variance); });
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* data_alpha, const void* data_beta,
    const void* parameter_alpha, const void* parameter_beta, cudnnTensorDescriptor_t x_descriptor,
    const void* x, cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    cudnnTensorDescriptor_t dx_descriptor, void* dx, cudnnTensorDescriptor_t statistics,
    const void* scale, void* dscale, void* dbias, double epsilon, const void* saved_mean,
    const void* saved_inverse) {
  return backward("cudnnBatchNormalizationBackward", handle,
                  {mode, x_descriptor, dy_descriptor, dx_descriptor, statistics, epsilon},
                  {data_alpha, data_beta}, {parameter_alpha, parameter_beta},
                  {{}, {}, {}, x, dy, scale, saved_mean, saved_inverse, dx, dscale, dbias},
                  nullptr);
}

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t operation,
    const void* data_alpha, const void* data_beta, const void* parameter_alpha,
    const void* parameter_beta, cudnnTensorDescriptor_t x_descriptor, const void* x,
    cudnnTensorDescriptor_t, const void*, cudnnTensorDescriptor_t dy_descriptor, const void* dy,
    cudnnTensorDescriptor_t, void*, cudnnTensorDescriptor_t dx_descriptor, void* dx,
    cudnnTensorDescriptor_t statistics, const void* scale, const void*, void* dscale, void* dbias,
    double epsilon, const void* saved_mean, const void* saved_inverse, cudnnActivationDescriptor_t,
    void* workspace, size_t workspace_size, void*, size_t) {
  const char* const call = "cudnnBatchNormalizationBackwardEx";
  check_operation(operation, call);
  const Workspace given = {workspace, workspace_size};
  return backward(call, handle,
                  {mode, x_descriptor, dy_descriptor, dx_descriptor, statistics, epsilon},
                  {data_alpha, data_beta}, {parameter_alpha, parameter_beta},
                  {{}, {}, {}, x, dy, scale, saved_mean, saved_inverse, dx, dscale, dbias}, &given);
}

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t operation,
    cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnActivationDescriptor_t, size_t* bytes) {
  return get_size(handle, operation, x, "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize",
                  bytes, true);
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t operation,
    cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnActivationDescriptor_t, size_t* bytes) {
  return get_size(handle, operation, x, "cudnnGetBatchNormalizationBackwardExWorkspaceSize", bytes,
                  true);
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t operation,
    cudnnActivationDescriptor_t, cudnnTensorDescriptor_t x, size_t* bytes) {
  return get_size(handle, operation, x, "cudnnGetBatchNormalizationTrainingExReserveSpaceSize",
                  bytes, false);
}
