// DEMI_CUDA_CHECK and its kin: a failed call of a CUDA library becomes an exception.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

namespace demi::cuda {

/// Throw DeviceError "[cuda] expression failed: name of the error, explanation (file:line).", or,
/// where memory ran out, OutOfMemory, which adds the bytes that are free.
void check(cudaError_t status, const char* expression, const char* file, int line);
void check(cublasStatus_t status, const char* expression, const char* file, int line);
void check(cudnnStatus_t status, const char* expression, const char* file, int line);

}  // namespace demi::cuda

/// Evaluates a call that returns cudaError_t, cublasStatus_t or cudnnStatus_t; throws
/// demi::DeviceError (OutOfMemory is one) unless it succeeded.
#define DEMI_CUDA_CHECK(expression) \
  ::demi::cuda::check((expression), #expression, __FILE__, __LINE__)
