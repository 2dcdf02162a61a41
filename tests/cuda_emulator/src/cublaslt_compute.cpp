#include "tests/cuda_emulator/src/cublaslt_compute.h"

#include <vector>

#include "tests/cuda_emulator/src/product.h"

namespace cuda_emulator {
namespace {

template <class T>
class Runner {
 public:
  explicit Runner(const Multiplication& multiplication)
      : call_(multiplication), problem_(multiplication.problem) {}

  void run() const {
    for (std::int64_t batch = 0; batch < problem_.batch_count; ++batch) run_one(batch);
  }

 private:
  /// Column after column, without gaps.
  [[nodiscard]] std::vector<T> read(const LtMatrix& matrix, const void* address,
                                    std::int64_t batch) const {
    std::vector<T> dense(static_cast<std::size_t>(matrix.rows * matrix.columns));
    const auto size = static_cast<std::int64_t>(size_of(matrix.format));
    const auto* first = static_cast<const std::byte*>(address) + batch * matrix.batch_stride * size;
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      load(matrix.format, first + j * matrix.ld * size, matrix.rows, 1,
           dense.data() + j * matrix.rows);
    }
    return dense;
  }

  void run_one(std::int64_t batch) const {
    const LtMatmul& matmul = problem_.matmul;
    const std::int64_t m = problem_.m, n = problem_.n, k = problem_.k;
    const bool a_is_transposed = matmul.transpose_a == CUBLAS_OP_T;
    const bool b_is_transposed = matmul.transpose_b == CUBLAS_OP_T;
    std::vector<T> a = read(problem_.a, call_.a, batch);
    std::vector<T> b = read(problem_.b, call_.b, batch);
    if (matmul.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
      sum_rows(a, m, k, a_is_transposed, batch);
    } else if (matmul.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      sum_rows(b, n, k, !b_is_transposed, batch);
    }
    if (problem_.rounds_to_tf32) {
      for (T& value : a) value = round_to_tf32(static_cast<float>(value));
      for (T& value : b) value = round_to_tf32(static_cast<float>(value));
    }
    // d transposed, row after row, is d column after column.
    const MatrixView<T> a_view = {a.data(), a_is_transposed ? 1 : m, a_is_transposed ? k : 1};
    const MatrixView<T> b_view = {b.data(), b_is_transposed ? 1 : k, b_is_transposed ? n : 1};
    std::vector<T> result(static_cast<std::size_t>(m * n));
    multiply_add<T>({n, m, k}, b_view, a_view, result.data(), m);
    scale(result, batch);
    finish(result, batch);
    write(result, batch);
  }

  void scale(std::vector<T>& result, std::int64_t batch) const {
    for (T& value : result) value *= static_cast<T>(call_.alpha);
    if (call_.beta == 0) return;
    const std::vector<T> old = read(problem_.c, call_.c, batch);
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] += static_cast<T>(call_.beta) * old[i];
  }

  /// Bias, ReLU or its gradient, masks, and the gradient of a bias after a ReLU.
  void finish(std::vector<T>& result, std::int64_t batch) const {
    const LtMatmul& matmul = problem_.matmul;
    std::vector<T> bias(static_cast<std::size_t>(problem_.m));
    if (problem_.adds_bias()) {
      load(problem_.d.format, bias_at(batch), problem_.m, 1, bias.data());
    }
    auto* mask = static_cast<unsigned char*>(matmul.aux) + batch * matmul.aux_batch_stride / 8;
    for (std::int64_t j = 0; j < problem_.n; ++j) {
      for (std::int64_t i = 0; i < problem_.m; ++i) {
        T& value = result[static_cast<std::size_t>(j * problem_.m + i)];
        if (problem_.adds_bias()) value += bias[static_cast<std::size_t>(i)];
        const std::int64_t bit = j * matmul.aux_ld + i;
        const auto in_byte = static_cast<unsigned char>(1U << (bit % 8));
        if (problem_.has_epilogue(CUBLASLT_EPILOGUE_RELU)) {
          const bool is_positive = value > 0;  // NaN becomes 0, as in cuBLAS
          if (!is_positive) value = 0;
          if (problem_.writes_mask()) {
            unsigned char& byte = mask[bit / 8];
            byte = static_cast<unsigned char>(is_positive ? byte | in_byte : byte & ~in_byte);
          }
        } else if (problem_.has_mask() && (mask[bit / 8] & in_byte) == 0) {
          value = 0;
        }
      }
    }
    if (matmul.epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD) {
      sum_rows(result, problem_.m, problem_.n, false, batch);
    }
  }

  /// Stores the sums of `length` rows of `depth` elements as the gradient of the bias. The rows
  /// are columns in memory if `is_transposed`.
  void sum_rows(const std::vector<T>& values, std::int64_t length, std::int64_t depth,
                bool is_transposed, std::int64_t batch) const {
    std::vector<T> sums(static_cast<std::size_t>(length));
    for (std::int64_t p = 0; p < depth; ++p) {
      for (std::int64_t i = 0; i < length; ++i) {
        sums[static_cast<std::size_t>(i)] +=
            values[static_cast<std::size_t>(is_transposed ? i * depth + p : p * length + i)];
      }
    }
    store(problem_.d.format, sums.data(), length, 1, bias_at(batch));
  }

  [[nodiscard]] void* bias_at(std::int64_t batch) const {
    return static_cast<std::byte*>(problem_.matmul.bias) +
           batch * problem_.matmul.bias_batch_stride *
               static_cast<std::int64_t>(size_of(problem_.d.format));
  }

  void write(const std::vector<T>& result, std::int64_t batch) const {
    const LtMatrix& matrix = problem_.d;
    const auto size = static_cast<std::int64_t>(size_of(matrix.format));
    auto* first = static_cast<std::byte*>(call_.d) + batch * matrix.batch_stride * size;
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      store(matrix.format, result.data() + j * matrix.rows, matrix.rows, 1,
            first + j * matrix.ld * size);
    }
  }

  const Multiplication& call_;
  const LtProblem& problem_;
};

}  // namespace

void multiply(const Multiplication& multiplication) {
  const std::size_t used = multiplication.used_workspace_bytes;
  if (used > 0) poison(multiplication.workspace, used);
  if (multiplication.problem.is_double) {
    Runner<double>(multiplication).run();
  } else {
    Runner<float>(multiplication).run();
  }
  if (used > 0) poison(multiplication.workspace, used);
}

}  // namespace cuda_emulator
