// Own kernels of the family matmul.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/registry.h"

namespace demi::cuda::matmul {

/// A product of matrices of any floating dtypes, mixed as they may be.
[[nodiscard]] std::unique_ptr<Kernel> make_direct(const KernelRequest& request, Context& context,
                                                  std::string& reason);

/// What is left to do after a product without epilogue: y [rows, columns] = sums + bias [columns],
/// then relu (a NaN stays), rounded once. Without sums (null) they are 0; without bias (null) none
/// is added; `sums` may be y.
struct Finish {
  const void* sums;
  DType sums_dtype;
  const void* bias;
  DType bias_dtype;
  void* y;
  DType y_dtype;
  std::int64_t rows;
  std::int64_t columns;
  const void* mask;  ///< null: none; y is 0 where this [rows, columns] is not positive
  DType mask_dtype;
  bool relu;
};
void finish(const Finish& job, cudaStream_t stream);

}  // namespace demi::cuda::matmul
