// Matrix product of the CPU backend, on raw pointers.
//
// Storage may be float32, float16 or bfloat16, each operand its own; products and sums are float32
// and each element of C is one chain of fused multiply-adds in the order of k that starts from the
// bias, so a result depends on neither the blocking nor the number of threads. With float64 every
// operand is float64.
#pragma once

#include <cstddef>
#include <cstdint>

#include <demi/dtype.h>

#include "kernels/cpu/thread_pool.h"

namespace demi::cpu {

/// Applied to a result after the bias. kRelu keeps NaN.
enum class Activation : std::uint8_t { kNone, kRelu };

/// C[m, n] = activation(bias[n] + op(A)[m, k] · op(B)[k, n]), row-major.
struct GemmProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k]
  /// Elements from one stored row to the next; 0 means rows without gaps.
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  DType a_dtype = float32;
  DType b_dtype = float32;
  DType c_dtype = float32;
  DType bias_dtype = float32;
  Activation activation = Activation::kNone;
  /// Starts the sums from what C holds, instead of a bias; C is then float32 (float64).
  bool accumulate = false;
};

/// Bytes of workspace `gemm` needs for this problem on a pool of `threads` threads.
[[nodiscard]] std::size_t gemm_workspace_bytes(const GemmProblem& problem, int threads);

/// Computes C. `bias` [n] may be null, and is with `accumulate`. `workspace` is 64-byte aligned, of
/// gemm_workspace_bytes, and may be overwritten; C overlaps neither A nor B. Nothing is allocated.
/// k = 0 gives the bias.
void gemm(const GemmProblem& problem, const void* a, const void* b, const void* bias, void* c,
          void* workspace, ThreadPool& pool);

}  // namespace demi::cpu
