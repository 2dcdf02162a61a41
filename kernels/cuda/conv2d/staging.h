// What is done to operands before and after a call of cuDNN: filters in its layout, biases in its
// dtype, epilogues it does not fuse.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <demi/dtype.h>

namespace demi::cuda {

/// Note [Filter layouts]: a filter [kh, kw, ci / groups, co] is a matrix of `taps` rows and `co`
/// columns; cuDNN's [co, kh, kw, ci / groups], as copies of weights lie, is its transpose.

/// out[columns, rows] = transpose of in[rows, columns], converted. float32, float16, bfloat16.
void transpose_convert(const void* in, DType in_dtype, void* out, DType out_dtype,
                       std::int64_t rows, std::int64_t columns, cudaStream_t stream);

/// out[count] = in[count], converted.
void convert(const void* in, DType in_dtype, void* out, DType out_dtype, std::int64_t count,
             cudaStream_t stream);

/// y[rows, channels] = activation(y + bias[channels]) in place; `bias` may be null. relu passes
/// NaN.
void add_bias_activation(void* y, DType y_dtype, const void* bias, DType bias_dtype, bool relu,
                         std::int64_t rows, std::int64_t channels, cudaStream_t stream);

}  // namespace demi::cuda
