// LtProduct: a matrix product through cuBLASLt, prepared once.
//
// What is kept to, beside what cublasLt.h says:
//  - Matrices are column-major. A row-major [r, c] buffer is a column-major (c × r) one with
//  leading
//    dimension c, and a bias along the rows of D is then one along the columns of the row-major
//    result; row-major layouts would exclude epilogues.
//  - RELU epilogues are not used: they turn NaN into 0, which would hide an overflow from the loss
//    scaling.
//  - Split sums are reduced in the compute type only (CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE): in
//    float16 partial sums can overflow.
//  - The algorithm is chosen when a product is prepared and then kept: cublasLtMatmul without one
//    would ask the heuristic at each call.
//  - float32 is computed in float32, or in TF32 where Options::allow_tf32 says so; 16-bit types
//    accumulate in float32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <cublasLt.h>

#include <demi/dtype.h>

#include "kernels/cuda/context.h"
#include "kernels/kernel.h"

namespace demi::cuda {

/// D [m, n] = op(A) [m, k] · op(B) [k, n], all column-major and dense, plus a bias [m] of D's dtype
/// on every column, or the gradient of one, if asked.
struct LtProblem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;  ///< A is stored as [k, m]
  bool transpose_b = false;  ///< B is stored as [n, k]
  DType inputs = DType::kFloat32;
  DType output = DType::kFloat32;
  bool has_bias = false;
  bool has_bias_gradient = false;  ///< also the sums of A's rows over k, [m], in D's dtype; no bias
};

class LtProduct {
 public:
  /// Null, with a reason, if cuBLASLt or the GPU does not compute these dtypes, or if there is a
  /// device and cuBLASLt has no algorithm for it. Extents must not be 0.
  [[nodiscard]] static std::unique_ptr<LtProduct> make(const LtProblem& problem, Context& context,
                                                       std::string& reason);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  /// What the algorithm says of itself; without a device there is none yet.
  [[nodiscard]] TensorCores tensor_cores() const;

  /// What run() needs; the same with and without a device.
  [[nodiscard]] std::size_t workspace_bytes() const;

  /// Queues the product on the context's stream. `bias` is read with has_bias, written with
  /// has_bias_gradient, and else ignored.
  void run(const void* a, const void* b, const void* bias, void* d, void* workspace);

 private:
  LtProduct(const LtProblem& problem, Context& context);
  [[nodiscard]] bool has_bias_pointer() const {
    return problem_.has_bias || problem_.has_bias_gradient;
  }
  bool choose_algorithm(std::string& reason);
  /// The place of the algorithm to use; `count`, with a reason, if none of them runs.
  [[nodiscard]] std::size_t fastest(const cublasLtMatmulHeuristicResult_t* results,
                                    std::size_t count, std::string& reason);
  void run(const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b, const void* bias,
           void* d, void* workspace);
  [[nodiscard]] std::string key() const;

  LtProblem problem_;
  Context& context_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t d_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace demi::cuda
