#include "kernels/cuda/conv2d/staging.h"

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/launch.cuh"

namespace demi::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRowsAtOnce = kThreads / kTile;

/// One block per tile of 32 × 32, through shared memory so that both sides are coalesced.
__global__ void transpose_kernel(AnyInput in, AnyOutput out, std::int64_t rows,
                                 std::int64_t columns, std::int64_t tiles_across) {
  DEMI_SHARED(float, tile, [kTile][kTile + 1]);
  const std::int64_t row0 = blockIdx.x / tiles_across * kTile;
  const std::int64_t column0 = blockIdx.x % tiles_across * kTile;
  const int x = static_cast<int>(threadIdx.x) % kTile;
  const int y = static_cast<int>(threadIdx.x) / kTile;
  for (int i = y; i < kTile; i += kTileRowsAtOnce) {
    if (row0 + i < rows && column0 + x < columns) {
      tile[i][x] = in.get<float>((row0 + i) * columns + column0 + x);
    }
  }
  __syncthreads();
  for (int i = y; i < kTile; i += kTileRowsAtOnce) {
    if (row0 + x < rows && column0 + i < columns) {
      out.set((column0 + i) * rows + row0 + x, tile[x][i]);
    }
  }
}

__global__ void convert_kernel(AnyInput in, AnyOutput out, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    out.set(i, in.get<float>(i));
  }
}

__global__ void bias_activation_kernel(AnyInput in, AnyInput bias, AnyOutput out, bool relu,
                                       std::int64_t count, std::int64_t channels) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    float value = in.get<float>(i);
    if (bias.data != nullptr) value += bias.get<float>(i % channels);
    if (relu && value < 0.0F) value = 0.0F;
    out.set(i, value);
  }
}

}  // namespace

void transpose_convert(const void* in, DType in_dtype, void* out, DType out_dtype,
                       std::int64_t rows, std::int64_t columns, cudaStream_t stream) {
  const std::int64_t across = (columns + kTile - 1) / kTile;
  const std::int64_t down = (rows + kTile - 1) / kTile;
  launch(transpose_kernel, dim3(static_cast<unsigned>(across * down)), dim3(kThreads), 0, stream,
         AnyInput{in, in_dtype}, AnyOutput{out, out_dtype}, rows, columns, across);
}

void convert(const void* in, DType in_dtype, void* out, DType out_dtype, std::int64_t count,
             cudaStream_t stream) {
  launch(convert_kernel, dim3(blocks_for(count, kThreads)), dim3(kThreads), 0, stream,
         AnyInput{in, in_dtype}, AnyOutput{out, out_dtype}, count);
}

void add_bias_activation(void* y, DType y_dtype, const void* bias, DType bias_dtype, bool relu,
                         std::int64_t rows, std::int64_t channels, cudaStream_t stream) {
  const std::int64_t count = rows * channels;
  launch(bias_activation_kernel, dim3(blocks_for(count, kThreads)), dim3(kThreads), 0, stream,
         AnyInput{y, y_dtype}, AnyInput{bias, bias_dtype}, AnyOutput{y, y_dtype}, relu, count,
         channels);
}

}  // namespace demi::cuda
