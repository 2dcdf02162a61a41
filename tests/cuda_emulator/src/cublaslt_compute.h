// The arithmetic of cublasLtMatmul.
#pragma once

#include <cstddef>

#include "tests/cuda_emulator/src/cublaslt_problem.h"

namespace cuda_emulator {

/// One call of cublasLtMatmul, checked.
struct Multiplication {
  LtProblem problem;
  double alpha, beta;
  const void *a, *b, *c;
  void *d, *workspace;
  std::size_t workspace_bytes;       ///< that were given
  std::size_t used_workspace_bytes;  ///< by the algorithm
};

/// Needs the device's memory: inside enqueued work. Sums are in float32, of float64 in float64.
void multiply(const Multiplication& multiplication);

}  // namespace cuda_emulator
