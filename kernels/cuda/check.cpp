#include "kernels/cuda/check.h"

#include <string>

#include <demi/error.h>

namespace demi::cuda {
namespace {

[[noreturn]] void fail(const std::string& problem, const char* expression, const char* file,
                       int line) {
  throw DeviceError("[cuda] " + std::string(expression) + " failed: " + problem + " (" + file +
                    ":" + std::to_string(line) + ").");
}

}  // namespace

void check(cudaError_t status, const char* expression, const char* file, int line) {
  if (status == cudaSuccess) return;
  // A failed launch leaves its error for the next caller too.
  (void)cudaGetLastError();
  fail(std::string(cudaGetErrorName(status)) + ", " + cudaGetErrorString(status), expression, file,
       line);
}

void check(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(cublasLtGetStatusName(status), expression, file, line);
}

void check(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof(details));
  fail(std::string(cudnnGetErrorString(status)) + ", " + details, expression, file, line);
}

}  // namespace demi::cuda
