// What is done to operands around calls of cuDNN that fuse nothing.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <demi/dtype.h>

namespace demi::cuda {

/// y[count] = max(y, 0) in place; a NaN stays. Floating dtypes.
void apply_relu(void* y, DType dtype, std::int64_t count, cudaStream_t stream);

/// out[count] = dy where y > 0, else 0. All three of one floating dtype.
void mask_gradient(const void* dy, const void* y, void* out, DType dtype, std::int64_t count,
                   cudaStream_t stream);

/// variance[count] from 1 / sqrt(variance + epsilon), at least 0. float32 or float64.
void recover_variance(const void* inv_std, double epsilon, void* variance, DType dtype,
                      std::int64_t count, cudaStream_t stream);

}  // namespace demi::cuda
