// A plain tiled product for what cuBLASLt refuses, and the step after a product without epilogue.

#include "kernels/cuda/matmul/direct.h"

#include <demi/ops/matmul.h>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packet.cuh"

namespace demi::cuda::matmul {
namespace {

constexpr int kTile = 16;
constexpr int kThreads = 256;

/// A row-major matrix, or the transpose of one.
struct Matrix {
  AnyInput elements;
  std::int64_t row_stride;
  std::int64_t column_stride;
};

struct Problem {
  Matrix a;
  Matrix b;
  AnyInput bias;
  AnyOutput y;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t tiles_across;
  bool relu;
};

/// One block for each tile of y, one thread for each of its elements.
template <class C>
__global__ void product(Problem p) {
  DEMI_SHARED(C, a, [kTile][kTile + 1]);
  DEMI_SHARED(C, b, [kTile][kTile + 1]);
  const int x = static_cast<int>(threadIdx.x) % kTile;
  const int y = static_cast<int>(threadIdx.x) / kTile;
  const std::int64_t row0 = blockIdx.x / p.tiles_across * kTile;
  const std::int64_t column0 = blockIdx.x % p.tiles_across * kTile;
  C sum = 0;
  for (std::int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    const auto element = [&](const Matrix& matrix, std::int64_t row, std::int64_t rows,
                             std::int64_t column, std::int64_t columns) {
      if (row >= rows || column >= columns) return C(0);
      return matrix.elements.template get<C>(row * matrix.row_stride +
                                             column * matrix.column_stride);
    };
    a[y][x] = element(p.a, row0 + y, p.m, k0 + x, p.k);
    b[y][x] = element(p.b, k0 + y, p.k, column0 + x, p.n);
    __syncthreads();
    DEMI_UNROLL
    for (int i = 0; i < kTile; ++i) sum += a[y][i] * b[i][x];
    __syncthreads();
  }
  const std::int64_t row = row0 + y;
  const std::int64_t column = column0 + x;
  if (row >= p.m || column >= p.n) return;
  if (p.bias.data != nullptr) sum += p.bias.get<C>(column);
  p.y.set(row * p.n + column, p.relu ? relu(sum) : sum);
}

template <class C>
__global__ void finish_kernel(AnyInput sums, AnyInput bias, AnyInput mask, AnyOutput y,
                              std::int64_t with_relu, std::int64_t count, std::int64_t columns) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    C value = sums.data == nullptr ? C(0) : sums.get<C>(i);
    if (bias.data != nullptr) value += bias.get<C>(i % columns);
    if (mask.data != nullptr && !(mask.get<C>(i) > 0)) value = 0;
    y.set(i, with_relu != 0 ? relu(value) : value);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_direct(const KernelRequest& request, Context& context, std::string&) {
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  const TensorType& y = request.outputs[0];
  Problem problem = {};
  problem.m = y.shape[0];
  problem.n = y.shape[1];
  problem.k = request.inputs[0].shape[attributes.transpose_a ? 0 : 1];
  problem.relu = attributes.activation == ops::Activation::kRelu;
  problem.tiles_across = (problem.n + kTile - 1) / kTile;
  const auto matrix = [](DType dtype, bool transposed, std::int64_t rows, std::int64_t columns) {
    return transposed ? Matrix{{nullptr, dtype}, 1, rows} : Matrix{{nullptr, dtype}, columns, 1};
  };
  problem.a = matrix(request.inputs[0].dtype, attributes.transpose_a, problem.m, problem.k);
  problem.b = matrix(request.inputs[1].dtype, attributes.transpose_b, problem.k, problem.n);
  if (attributes.has_bias) problem.bias = {nullptr, request.inputs[2].dtype};
  problem.y = {nullptr, y.dtype};
  const auto kernel = y.dtype == DType::kFloat64 ? &product<double> : &product<float>;
  return make_kernel(
      "direct", 0,
      [problem, kernel, &context, bias = attributes.has_bias](const KernelArguments& arguments) {
        Problem p = problem;
        p.a.elements.data = arguments.inputs[0];
        p.b.elements.data = arguments.inputs[1];
        p.bias.data = bias ? arguments.inputs[2] : nullptr;
        p.y.data = arguments.outputs[0];
        const std::int64_t tiles = p.tiles_across * ((p.m + kTile - 1) / kTile);
        launch(kernel, static_cast<unsigned>(tiles), kTile * kTile, 0, context.stream(), p);
      });
}

void finish(const Finish& job, cudaStream_t stream) {
  const auto kernel =
      job.y_dtype == DType::kFloat64 ? &finish_kernel<double> : &finish_kernel<float>;
  const std::int64_t count = job.rows * job.columns;
  launch(kernel, blocks_for(count, kThreads), kThreads, 0, stream,
         AnyInput{job.sums, job.sums_dtype}, AnyInput{job.bias, job.bias_dtype},
         AnyInput{job.mask, job.mask_dtype}, AnyOutput{job.y, job.y_dtype},
         std::int64_t{job.relu ? 1 : 0}, count, job.columns);
}

}  // namespace demi::cuda::matmul
