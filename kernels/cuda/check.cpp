#include "kernels/cuda/check.h"

#include <string>

#include <demi/error.h>

namespace demi::cuda {
namespace {

std::string describe(const std::string& problem, const char* expression, const char* file,
                     int line) {
  return "[cuda] " + std::string(expression) + " failed: " + problem + " (" + file + ":" +
         std::to_string(line) + ").";
}

/// As the failure of an allocation if `out_of_memory`: libraries allocate too.
[[noreturn]] void fail(bool out_of_memory, const std::string& problem, const char* expression,
                       const char* file, int line) {
  const std::string message = describe(problem, expression, file, line);
  if (!out_of_memory) throw DeviceError(message);
  std::size_t free = 0, total = 0;
  (void)cudaMemGetInfo(&free, &total);
  throw OutOfMemory(message + " " + std::to_string(free) + " of " + std::to_string(total) +
                    " bytes of the device are free.");
}

}  // namespace

void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  // A failed launch leaves its error for the next caller too.
  (void)cudaGetLastError();
  fail(status == cudaErrorMemoryAllocation,
       std::string(cudaGetErrorName(status)) + ", " + cudaGetErrorString(status), expression, file,
       line);
}

void check(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(status == CUBLAS_STATUS_ALLOC_FAILED, cublasLtGetStatusName(status), expression, file, line);
}

void check(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof(details));
  const bool out_of_memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                             status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  fail(out_of_memory, std::string(cudnnGetErrorString(status)) + ", " + details, expression, file,
       line);
}

}  // namespace demi::cuda
