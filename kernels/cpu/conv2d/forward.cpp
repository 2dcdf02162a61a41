#include "kernels/cpu/conv2d/check.h"
#include "kernels/cpu/conv2d/correlation.h"

namespace demi::cpu {

std::size_t conv2d_forward_workspace_bytes(const Conv2DProblem& problem, int threads) {
  check_conv2d(problem);
  return correlation_workspace_bytes(forward_correlation(problem, nullptr), threads);
}

void conv2d_forward(const Conv2DProblem& problem, const void* x, const void* w, const void* bias,
                    void* y, void* workspace, ThreadPool& pool) {
  check_conv2d(problem);
  correlate(forward_correlation(problem, nullptr),
            {.source = x,
             .filter = w,
             .bias = bias,
             .result = y,
             .index = nullptr,
             .workspace = workspace},
            pool);
}

std::size_t conv2d_forward_pooled_workspace_bytes(const Conv2DProblem& problem,
                                                  const PoolWindow& window, int threads) {
  check_conv2d(problem);
  check_window(problem, window);
  return correlation_workspace_bytes(forward_correlation(problem, &window), threads);
}

void conv2d_forward_pooled(const Conv2DProblem& problem, const PoolWindow& window, const void* x,
                           const void* w, const void* bias, void* y, std::uint8_t* index,
                           void* workspace, ThreadPool& pool) {
  check_conv2d(problem);
  check_window(problem, window);
  correlate(
      forward_correlation(problem, &window),
      {.source = x, .filter = w, .bias = bias, .result = y, .index = index, .workspace = workspace},
      pool);
}

}  // namespace demi::cpu
