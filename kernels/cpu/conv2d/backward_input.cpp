#include "kernels/cpu/conv2d/check.h"
#include "kernels/cpu/conv2d/correlation.h"

namespace demi::cpu {

std::size_t conv2d_backward_input_workspace_bytes(const Conv2DProblem& problem, int threads) {
  check_conv2d(problem);
  return correlation_workspace_bytes(backward_correlation(problem), threads);
}

void conv2d_backward_input(const Conv2DProblem& problem, const void* w, const void* dy, void* dx,
                           void* workspace, ThreadPool& pool) {
  check_conv2d(problem);
  correlate(backward_correlation(problem),
            {.source = dy,
             .filter = w,
             .bias = nullptr,
             .result = dx,
             .index = nullptr,
             .workspace = workspace},
            pool);
}

}  // namespace demi::cpu
