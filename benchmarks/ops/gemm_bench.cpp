// Matrix products: those of the Dense layers of mnist_cnn at batch 128, and some typical others.
// Columns: m n k, then transpose_a, transpose_b, float16. "eigen" is Eigen's product of the same
// float32 matrices, its rows split over the same threads.
#include <benchmark/benchmark.h>
#include <Eigen/Core>

#include "benchmarks/ops/floors.h"
#include "benchmarks/ops/operand.h"
#include "kernels/cpu/gemm.h"

namespace demi::benchmarks {
namespace {

void gemm(benchmark::State& state) {
  cpu::ThreadPool pool(cpu::default_thread_count());
  const DType dtype = state.range(5) != 0 ? float16 : float32;
  const cpu::GemmProblem p{.m = state.range(0),
                           .n = state.range(1),
                           .k = state.range(2),
                           .transpose_a = state.range(3) != 0,
                           .transpose_b = state.range(4) != 0,
                           .a_dtype = dtype,
                           .b_dtype = dtype,
                           .c_dtype = dtype};
  const Operand a(p.m * p.k, dtype);
  const Operand b(p.k * p.n, dtype);
  const Operand c(p.m * p.n, dtype);
  const Operand workspace(static_cast<std::int64_t>(cpu::gemm_workspace_bytes(p, pool.threads())),
                          uint8);
  measure(state, pool, 2.0 * static_cast<double>(p.m * p.n * p.k),
          [&] { cpu::gemm(p, a.data(), b.data(), nullptr, c.data(), workspace.data(), pool); });
}

constexpr std::int64_t kSizes[][5] = {
    {128, 128, 1600, 0, 0},   {128, 1600, 128, 0, 1}, {1600, 128, 128, 1, 0},
    {128, 256, 784, 0, 0},    {32, 256, 784, 0, 0},   {128, 256, 256, 0, 0},
    {128, 10, 128, 0, 0},     {128, 128, 10, 0, 1},   {128, 10, 128, 1, 0},
    {1, 128, 1600, 0, 0},     {1, 1600, 128, 0, 1},   {512, 512, 512, 0, 0},
    {1024, 1024, 1024, 0, 0}, {12544, 256, 64, 0, 0}, {12544, 64, 256, 0, 0},
    {12544, 64, 256, 0, 1},   {64, 256, 12544, 1, 0}};

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void eigen(benchmark::State& state) {
  cpu::ThreadPool pool(cpu::default_thread_count());
  const Eigen::Index m = state.range(0), n = state.range(1), k = state.range(2);
  const Matrix a = state.range(3) != 0 ? Matrix::Random(k, m) : Matrix::Random(m, k);
  const Matrix b = state.range(4) != 0 ? Matrix::Random(n, k) : Matrix::Random(k, n);
  Matrix c(m, n);
  measure(state, pool, 2.0 * static_cast<double>(m * n * k), [&] {
    const Eigen::Index parts = pool.threads();
    pool.parallel_for(parts, [&](std::int64_t part, int) {
      const Eigen::Index first = m * part / parts, rows = m * (part + 1) / parts - first;
      auto out = c.middleRows(first, rows);
      if (state.range(3) != 0) {
        out.noalias() = a.middleCols(first, rows).transpose() * b;
      } else if (state.range(4) != 0) {
        out.noalias() = a.middleRows(first, rows) * b.transpose();
      } else {
        out.noalias() = a.middleRows(first, rows) * b;
      }
    });
  });
}

void problems(benchmark::internal::Benchmark* bench) {
  for (const auto& s : kSizes) {
    for (std::int64_t half : {0, 1}) bench->Args({s[0], s[1], s[2], s[3], s[4], half});
  }
}

void float32_problems(benchmark::internal::Benchmark* bench) {
  for (const auto& s : kSizes) bench->Args({s[0], s[1], s[2], s[3], s[4], 0});
}

BENCHMARK(eigen)->Apply(float32_problems)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(gemm)->Apply(problems)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace demi::benchmarks
