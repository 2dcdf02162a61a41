// cublasLtMatmul and the search for algorithms.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cuda_emulator/library_control.h"
#include "tests/cuda_emulator/src/cublaslt_compute.h"
#include "tests/cuda_emulator/src/memory_check.h"

namespace cuda_emulator {
namespace {

constexpr std::uintptr_t kWorkspaceAlignment = 256;
/// Sums over fewer elements are not split.
constexpr std::int64_t kLeastSplitDepth = 512;

unsigned refused_epilogues = 0;

std::uint32_t alignment_of(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(16, value & (~value + 1)));
}

/// What the fastest kernels need of a matrix: whole vectors of 16 bytes, if its columns and the
/// promised address allow them.
std::uint32_t needed_alignment(const LtMatrix& matrix, std::uint32_t promised) {
  const auto bytes = static_cast<std::uint64_t>(size_of(matrix.format));
  std::uint32_t alignment = std::min<std::uint32_t>(16, promised);
  alignment = std::min(alignment, alignment_of(static_cast<std::uint64_t>(matrix.ld) * bytes));
  if (matrix.batch_stride != 0) {
    alignment =
        std::min(alignment, alignment_of(static_cast<std::uint64_t>(matrix.batch_stride) * bytes));
  }
  return alignment;
}

bool is_aligned(const void* address, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

void check_memory(const Multiplication& multiplication) {
  const LtProblem& problem = multiplication.problem;
  const std::int64_t count = problem.batch_count;
  MemoryCheck memory("cublasLtMatmul");
  memory.add_read("A", multiplication.a, problem.a.bytes(count));
  memory.add_read("B", multiplication.b, problem.b.bytes(count));
  memory.add_written("D", multiplication.d, problem.d.bytes(count));
  if (multiplication.beta != 0 && multiplication.c != multiplication.d) {
    memory.add_read("C", multiplication.c, problem.c.bytes(count));
  }
  const std::int64_t last_bias = (count - 1) * problem.matmul.bias_batch_stride;
  const std::size_t bias_bytes =
      static_cast<std::size_t>(last_bias + problem.bias_length()) * size_of(problem.d.format);
  if (problem.adds_bias()) memory.add_read("the bias", problem.matmul.bias, bias_bytes);
  if (problem.writes_bias_gradient()) {
    memory.add_written("the bias", problem.matmul.bias, bias_bytes);
  }
  if (problem.writes_mask()) {
    memory.add_written("the mask", problem.matmul.aux, problem.mask_bytes());
  } else if (problem.has_mask()) {
    memory.add_read("the mask", problem.matmul.aux, problem.mask_bytes());
  }
  if (multiplication.workspace_bytes > 0) {
    memory.add_written("the workspace", multiplication.workspace, multiplication.workspace_bytes);
  }
}

cublasStatus_t check_addresses(const Multiplication& multiplication) {
  const LtProblem& problem = multiplication.problem;
  const std::pair<const void*, Format> elements[] = {{multiplication.a, problem.a.format},
                                                     {multiplication.b, problem.b.format},
                                                     {multiplication.c, problem.c.format},
                                                     {multiplication.d, problem.d.format}};
  for (const auto& [address, format] : elements) {
    if (address == nullptr || !is_aligned(address, size_of(format))) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  const LtMatmul& matmul = problem.matmul;
  if (multiplication.c == multiplication.d && multiplication.beta != 0 &&
      (problem.c.ld != problem.d.ld || problem.c.batch_stride != problem.d.batch_stride)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if ((problem.adds_bias() || problem.writes_bias_gradient()) &&
      (matmul.bias == nullptr || !is_aligned(matmul.bias, size_of(problem.d.format)))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (problem.has_mask() && (matmul.aux == nullptr || !is_aligned(matmul.aux, 16))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// Whether an algorithm that was found fits the call.
cublasStatus_t check_algorithm(const LtAlgorithm& algorithm, const Multiplication& multiplication) {
  const LtProblem& problem = multiplication.problem;
  if (algorithm.mark != LtAlgorithm::kMark || algorithm.problem != fingerprint(problem)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm.workspace_bytes > multiplication.workspace_bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::pair<const void*, std::uint32_t> needed[] = {
      {multiplication.a, algorithm.alignment_a},
      {multiplication.b, algorithm.alignment_b},
      {multiplication.c, algorithm.alignment_c},
      {multiplication.d, algorithm.alignment_d},
      {problem.matmul.bias, algorithm.alignment_bias}};
  for (const auto& [address, alignment] : needed) {
    if (!is_aligned(address, alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

/// What splitting the sums takes; 0 where they are too short for it.
std::uint64_t split_workspace(const LtProblem& problem) {
  if (problem.k < kLeastSplitDepth) return 0;
  return static_cast<std::uint64_t>(2 * problem.m * problem.n) *
         (problem.is_double ? sizeof(double) : sizeof(float));
}

cublasStatus_t find_problem(cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                            cublasLtMatrixLayout_t d, const char* call, LtProblem& problem) {
  const auto matmul_object = lt_matmuls().get(matmul, call);
  const auto a_object = lt_layouts().get(a, call), b_object = lt_layouts().get(b, call);
  const auto c_object = lt_layouts().get(c, call), d_object = lt_layouts().get(d, call);
  if (!matmul_object || !a_object || !b_object || !c_object || !d_object) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return read_problem(*matmul_object, *a_object, *b_object, *c_object, *d_object, problem);
}

LtAlgorithm make_algorithm(const LtProblem& problem, const LtPreference& preference,
                           std::uint64_t workspace_bytes) {
  // Of a bias that is not set cuBLAS expects the best.
  const auto bias = reinterpret_cast<std::uintptr_t>(problem.matmul.bias);
  const bool uses_bias = problem.adds_bias() || problem.writes_bias_gradient();
  const bool uses_tensor_cores = problem.rounds_to_tf32 || problem.a.format == Format::kHalf ||
                                 problem.a.format == Format::kBFloat16;
  return {LtAlgorithm::kMark,
          fingerprint(problem),
          workspace_bytes,
          needed_alignment(problem.a, preference.alignment_a),
          needed_alignment(problem.b, preference.alignment_b),
          needed_alignment(problem.c, preference.alignment_c),
          needed_alignment(problem.d, preference.alignment_d),
          !uses_bias  ? 1
          : bias == 0 ? 16
                      : alignment_of(bias),
          uses_tensor_cores ? 1u : 0u,
          {}};
}

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

void demi_emulator_refuse_epilogues(unsigned bits) {
  const std::lock_guard lock(mutex());
  refused_epilogues = bits;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int limit,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Call call("cublasLtMatmulAlgoGetHeuristic");
  if (call.error() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (lt_handles().get(handle, call.name()) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (limit <= 0 || results == nullptr || found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  LtProblem problem;
  const cublasStatus_t status = find_problem(matmul, a, b, c, d, call.name(), problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if ((problem.matmul.epilogue & refused_epilogues) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto given = lt_preferences().get(preference, call.name());
  const LtPreference wanted = given == nullptr ? LtPreference{} : *given;
  // First one that splits a long sum, if it may, then one without workspace.
  std::vector<std::uint64_t> workspaces;
  const std::uint64_t split_bytes = split_workspace(problem);
  if (split_bytes > 0 && split_bytes <= wanted.workspace_bytes &&
      (wanted.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0) {
    workspaces.push_back(split_bytes);
  }
  workspaces.push_back(0);
  for (const std::uint64_t bytes : workspaces) {
    if (*found == limit) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    const LtAlgorithm algorithm = make_algorithm(problem, wanted, bytes);
    std::memcpy(&result.algo, &algorithm, sizeof(algorithm));
    result.workspaceSize = bytes;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute,
                                                 void* value, size_t bytes, size_t* written) {
  const Call call("cublasLtMatmulAlgoCapGetAttribute");
  if (call.error() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  LtAlgorithm algorithm;
  std::memcpy(&algorithm, algo, sizeof(algorithm));
  if (algorithm.mark != LtAlgorithm::kMark) return CUBLAS_STATUS_INVALID_VALUE;
  const std::uint64_t flags = algorithm.tensor_cores != 0 ? CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA
                                                          : CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA;
  if (attribute != CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS || bytes != sizeof(flags)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(value, &flags, sizeof(flags));
  if (written != nullptr) *written = sizeof(flags);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const Call call("cublasLtMatmul");
  if (call.error() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (lt_handles().get(handle, call.name()) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  auto multiplication = std::make_shared<Multiplication>();
  LtProblem& problem = multiplication->problem;
  cublasStatus_t status =
      find_problem(matmul, a_layout, b_layout, c_layout, d_layout, call.name(), problem);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Format scale = problem.is_double ? Format::kDouble : Format::kFloat;
  multiplication->alpha = load_one<double>(scale, alpha);
  multiplication->beta = load_one<double>(scale, beta);
  multiplication->a = a;
  multiplication->b = b;
  multiplication->c = c;
  multiplication->d = d;
  multiplication->workspace = workspace;
  multiplication->workspace_bytes = workspace == nullptr ? 0 : workspace_bytes;
  status = check_addresses(*multiplication);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (workspace != nullptr && !is_aligned(workspace, kWorkspaceAlignment)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algo != nullptr) {
    LtAlgorithm algorithm;
    std::memcpy(&algorithm, algo, sizeof(algorithm));
    status = check_algorithm(algorithm, *multiplication);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    multiplication->used_workspace_bytes = algorithm.workspace_bytes;
  } else if (split_workspace(problem) <= multiplication->workspace_bytes) {
    multiplication->used_workspace_bytes = split_workspace(problem);
  }
  check_memory(*multiplication);
  const cudaError_t error =
      enqueue(stream, call.name(), [multiplication] { multiply(*multiplication); });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
