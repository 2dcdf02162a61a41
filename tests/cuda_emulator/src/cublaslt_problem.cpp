#include "tests/cuda_emulator/src/cublaslt_problem.h"

#include <initializer_list>
#include <limits>
#include <optional>

namespace cuda_emulator {
namespace {

bool is_one_of(std::int64_t value, std::initializer_list<std::int64_t> list) {
  for (const std::int64_t candidate : list) {
    if (value == candidate) return true;
  }
  return false;
}

/// The rows of cuBLAS's table of types whose data are real and not integers or narrow floats.
bool types_are_supported(const LtMatmul& matmul, const LtProblem& problem) {
  const Format in = problem.a.format, out = problem.d.format;
  if (problem.b.format != in || problem.c.format != out) return false;
  switch (matmul.compute_type) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return matmul.scale_type == CUDA_R_32F && in != Format::kDouble &&
             (out == in || out == Format::kFloat);
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return matmul.scale_type == CUDA_R_32F && in == Format::kFloat && out == in;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return matmul.scale_type == CUDA_R_64F && in == Format::kDouble && out == in;
    default:
      return false;
  }
}

/// Bias and bias gradient have the type of d.
bool bias_type_is_supported(const LtMatmul& matmul, Format d) {
  return matmul.bias_type == -1 ||
         format_of(static_cast<cudaDataType_t>(matmul.bias_type)) == std::optional(d);
}

cublasStatus_t check_epilogue(const LtProblem& problem) {
  const LtMatmul& matmul = problem.matmul;
  if (!is_one_of(matmul.epilogue, {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU,
                                   CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_BIAS,
                                   CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
                                   CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DRELU_BGRAD,
                                   CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB})) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (problem.is_double && matmul.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if ((problem.adds_bias() || problem.writes_bias_gradient()) &&
      !bias_type_is_supported(matmul, problem.d.format)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (problem.has_mask()) {
    if (matmul.aux_ld % 128 != 0 || matmul.aux_ld < problem.m) return CUBLAS_STATUS_INVALID_VALUE;
    if (matmul.aux_batch_stride % 128 != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (problem.batch_count > 1 && matmul.aux_batch_stride < matmul.aux_ld * problem.n) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t read_matrix(const LtLayout& layout, LtMatrix& matrix) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto format = format_of(static_cast<cudaDataType_t>(layout.type));
  if (!format || layout.order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (layout.rows > kMost || layout.columns > kMost) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (layout.rows == 0 || layout.columns == 0 || layout.batch_count < 1) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (layout.ld < static_cast<std::int64_t>(layout.rows)) return CUBLAS_STATUS_INVALID_VALUE;
  matrix = {*format, static_cast<std::int64_t>(layout.rows),
            static_cast<std::int64_t>(layout.columns), layout.ld, layout.batch_stride};
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::size_t LtMatrix::bytes(std::int64_t batch_count) const {
  return static_cast<std::size_t>((batch_count - 1) * batch_stride + (columns - 1) * ld + rows) *
         size_of(format);
}

bool LtProblem::writes_bias_gradient() const {
  return is_one_of(matmul.epilogue, {CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
                                     CUBLASLT_EPILOGUE_BGRADB});
}

std::int64_t LtProblem::bias_length() const {
  return matmul.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n : m;
}

std::size_t LtProblem::mask_bytes() const {
  return static_cast<std::size_t>(
      ((batch_count - 1) * matmul.aux_batch_stride + matmul.aux_ld * n) / 8);
}

cublasStatus_t read_problem(const LtMatmul& matmul, const LtLayout& a, const LtLayout& b,
                            const LtLayout& c, const LtLayout& d, LtProblem& problem) {
  problem = {};
  problem.matmul = matmul;
  const std::pair<const LtLayout*, LtMatrix*> matrices[] = {
      {&a, &problem.a}, {&b, &problem.b}, {&c, &problem.c}, {&d, &problem.d}};
  for (const auto& [layout, matrix] : matrices) {
    const cublasStatus_t status = read_matrix(*layout, *matrix);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (layout->batch_count != d.batch_count) return CUBLAS_STATUS_INVALID_VALUE;
  }
  problem.batch_count = d.batch_count;
  if (!is_one_of(matmul.transpose_a, {CUBLAS_OP_N, CUBLAS_OP_T}) ||
      !is_one_of(matmul.transpose_b, {CUBLAS_OP_N, CUBLAS_OP_T})) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (matmul.transpose_c != CUBLAS_OP_N || matmul.fill_mode != CUBLAS_FILL_MODE_FULL ||
      matmul.pointer_mode != CUBLASLT_POINTER_MODE_HOST) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool a_is_transposed = matmul.transpose_a == CUBLAS_OP_T;
  const bool b_is_transposed = matmul.transpose_b == CUBLAS_OP_T;
  problem.m = a_is_transposed ? problem.a.columns : problem.a.rows;
  problem.k = a_is_transposed ? problem.a.rows : problem.a.columns;
  problem.n = b_is_transposed ? problem.b.rows : problem.b.columns;
  if ((b_is_transposed ? problem.b.columns : problem.b.rows) != problem.k ||
      problem.c.rows != problem.m || problem.c.columns != problem.n ||
      problem.d.rows != problem.m || problem.d.columns != problem.n) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (problem.batch_count > 1 && problem.d.batch_stride < problem.d.ld * problem.n) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!types_are_supported(matmul, problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (problem.a.format == Format::kBFloat16 && compute_capability() < 80) {
    return CUBLAS_STATUS_ARCH_MISMATCH;
  }
  problem.is_double = problem.a.format == Format::kDouble;
  problem.rounds_to_tf32 =
      matmul.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32 && compute_capability() >= 80;
  return check_epilogue(problem);
}

std::uint64_t fingerprint(const LtProblem& problem) {
  std::uint64_t value = 14695981039346656037U;
  const auto add = [&](std::uint64_t word) { value = (value ^ word) * 1099511628211U; };
  for (const LtMatrix* matrix : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    add(static_cast<std::uint64_t>(matrix->format));
    for (const std::int64_t extent :
         {matrix->rows, matrix->columns, matrix->ld, matrix->batch_stride}) {
      add(static_cast<std::uint64_t>(extent));
    }
  }
  const LtMatmul& matmul = problem.matmul;
  for (const std::int64_t word :
       {std::int64_t{matmul.compute_type}, std::int64_t{matmul.transpose_a},
        std::int64_t{matmul.transpose_b}, std::int64_t{matmul.epilogue}, matmul.aux_ld,
        problem.batch_count}) {
    add(static_cast<std::uint64_t>(word));
  }
  return value;
}

}  // namespace cuda_emulator
