#include "kernels/cuda/cublaslt.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cudnn/tuned_engines.h"
#include "kernels/cuda/timing.h"

namespace demi::cuda {
namespace {

/// Candidates that the heuristic is asked for; the first few of them are measured.
constexpr int kCandidates = 6;
constexpr int kRounds = 5;
/// What KernelArguments promises of every address.
constexpr std::uint32_t kAlignment = 64;

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat64:
      return CUDA_R_64F;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(const LtProblem& problem, const Options& options) {
  if (problem.inputs == DType::kFloat64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = problem.inputs == DType::kFloat32 && options.allow_tf32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// A column-major dense matrix.
cublasLtMatrixLayout_t make_layout(DType dtype, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  DEMI_CUDA_CHECK(cublasLtMatrixLayoutCreate(&layout, data_type(dtype),
                                             static_cast<std::uint64_t>(rows),
                                             static_cast<std::uint64_t>(columns), rows));
  return layout;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  DEMI_CUDA_CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
}

class Preference {
 public:
  Preference() { DEMI_CUDA_CHECK(cublasLtMatmulPreferenceCreate(&preference_)); }
  ~Preference() { (void)cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    DEMI_CUDA_CHECK(
        cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)));
  }
  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

bool is_supported(const LtProblem& problem, const Context& context, std::string& reason) {
  if (problem.output != problem.inputs &&
      !(is_half(problem.inputs) && problem.output == DType::kFloat32)) {
    reason = "cuBLASLt stores the dtype of the inputs, or float32 of 16-bit ones";
    return false;
  }
  if (problem.inputs == DType::kBFloat16 && !context.properties().supports_bfloat16()) {
    reason = "bfloat16 needs a GPU of compute capability 8.0";
    return false;
  }
  if ((problem.has_bias || problem.has_bias_gradient) && problem.output == DType::kFloat64) {
    reason = "cuBLASLt adds no bias in float64, nor its gradient";
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<LtProduct> LtProduct::make(const LtProblem& problem, Context& context,
                                           std::string& reason) {
  if (!is_supported(problem, context, reason)) return nullptr;
  std::unique_ptr<LtProduct> product(new LtProduct(problem, context));
  if (context.has_device() && !product->choose_algorithm(reason)) return nullptr;
  return product;
}

LtProduct::LtProduct(const LtProblem& problem, Context& context)
    : problem_(problem), context_(context) {
  const bool is_double = problem.inputs == DType::kFloat64;
  DEMI_CUDA_CHECK(cublasLtMatmulDescCreate(&operation_, compute_type(problem, context.options()),
                                           is_double ? CUDA_R_64F : CUDA_R_32F));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, problem.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, problem.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (has_bias_pointer()) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE,
        problem.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADA);
    // Any address with the alignment that the real ones will have: the heuristic looks at that.
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        reinterpret_cast<const void*>(std::uintptr_t{kAlignment}));
  }
  const auto layout = [&](bool transposed, std::int64_t rows, std::int64_t columns) {
    return transposed ? make_layout(problem.inputs, columns, rows)
                      : make_layout(problem.inputs, rows, columns);
  };
  a_ = layout(problem.transpose_a, problem.m, problem.k);
  b_ = layout(problem.transpose_b, problem.k, problem.n);
  d_ = make_layout(problem.output, problem.m, problem.n);
}

LtProduct::~LtProduct() {
  if (d_ != nullptr) (void)cublasLtMatrixLayoutDestroy(d_);
  if (b_ != nullptr) (void)cublasLtMatrixLayoutDestroy(b_);
  if (a_ != nullptr) (void)cublasLtMatrixLayoutDestroy(a_);
  if (operation_ != nullptr) (void)cublasLtMatmulDescDestroy(operation_);
}

TensorCores LtProduct::tensor_cores() const {
  const bool may = is_half(problem_.inputs) ||
                   (problem_.inputs == DType::kFloat32 && context_.options().allow_tf32);
  if (!context_.has_device()) return may ? TensorCores::kUnknown : TensorCores::kNo;
  std::uint64_t flags = 0;
  DEMI_CUDA_CHECK(cublasLtMatmulAlgoCapGetAttribute(
      &algorithm_, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof(flags), nullptr));
  return (flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) != 0 ? TensorCores::kYes
                                                                     : TensorCores::kNo;
}

std::size_t LtProduct::workspace_bytes() const {
  // NVIDIA's recommendation by generation; a small result cannot use that much, as it is for the
  // partial results of split sums.
  const std::size_t most =
      context_.properties().compute_capability >= 90 ? std::size_t{32} << 20 : std::size_t{4} << 20;
  const std::size_t parts = 32 * static_cast<std::size_t>(problem_.m * problem_.n) * sizeof(float);
  const std::size_t wanted = std::clamp(padded(parts), std::size_t{1} << 20, most);
  return std::min(wanted, context_.options().workspace_limit) + 256;
}

bool LtProduct::choose_algorithm(std::string& reason) {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                 static_cast<std::uint64_t>(workspace_bytes() - 256));
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    preference.set(attribute, kAlignment);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(kCandidates);
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(context_.cublas_lt(), operation_, a_, b_, d_, d_,
                                     preference.get(), kCandidates, results.data(), &count);
  // Any other failure says that it has none: which epilogues it refuses how is not documented.
  if (status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED ||
      status == CUBLAS_STATUS_EXECUTION_FAILED) {
    DEMI_CUDA_CHECK(status);
  }
  results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
  std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  if (results.empty()) {
    reason = std::string("cuBLASLt has no algorithm") + (problem_.has_bias ? " with a bias" : "") +
             (problem_.has_bias_gradient ? " with the gradient of a bias" : "");
    return false;
  }
  const std::size_t chosen = fastest(results.data(), results.size(), reason);
  if (chosen == results.size()) return false;
  algorithm_ = results[chosen].algo;
  return true;
}

std::string LtProduct::key() const {
  return fmt::format("cublaslt {} on {}, {} multiprocessors: {}·{}·{}{}{} {} to {}{}{}{}",
                     cublasLtGetVersion(), context_.properties().name,
                     context_.properties().multiprocessors, problem_.m, problem_.n, problem_.k,
                     problem_.transpose_a ? ", a transposed" : "",
                     problem_.transpose_b ? ", b transposed" : "", to_string(problem_.inputs),
                     to_string(problem_.output), problem_.has_bias ? ", bias" : "",
                     problem_.has_bias_gradient ? ", bias gradient" : "",
                     context_.options().allow_tf32 ? ", tf32" : "");
}

std::size_t LtProduct::fastest(const cublasLtMatmulHeuristicResult_t* results, std::size_t count,
                               std::string& reason) {
  if (!context_.options().autotune) return 0;
  // Different algorithms sum in different order: once chosen, one is used for all equal products.
  if (const auto known = context_.tuned_engines().find(key())) {
    const auto index = static_cast<std::size_t>(known->engine);
    return index < count ? index : 0;
  }
  const std::size_t elements[] = {
      padded(static_cast<std::size_t>(problem_.m * problem_.k) * size_of(problem_.inputs)),
      padded(static_cast<std::size_t>(problem_.k * problem_.n) * size_of(problem_.inputs)),
      padded(static_cast<std::size_t>(problem_.m * problem_.n) * size_of(problem_.output)),
      padded(static_cast<std::size_t>(problem_.m) * size_of(problem_.output))};
  const Scratch scratch(elements[0] + elements[1] + elements[2] + elements[3] + workspace_bytes(),
                        context_.stream());
  if (scratch.get() == nullptr) {
    std::fprintf(stderr,
                 "[cublaslt] too little free memory to time algorithms; the first is used\n");
    return 0;
  }
  std::byte* a = scratch.get();
  std::byte* b = a + elements[0];
  std::byte* d = b + elements[1];
  std::byte* bias = d + elements[2];
  // By turns, so that a clock that changes meanwhile favours none; the first round warms up.
  std::vector<float> least(count, kNever);
  Event start, end;
  for (int round = 0; round <= kRounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      if (round > 1 && least[i] == kNever) continue;
      const float milliseconds = milliseconds_of(context_.stream(), reason, [&] {
        start.record(context_.stream());
        run(results[i].algo, a, b, bias, d, bias + elements[3]);
        end.record(context_.stream());
        return end.milliseconds_since(start);
      });
      if (round > 0) least[i] = std::min(least[i], milliseconds);
    }
  }
  // The heuristic's order decides between those that a measurement cannot tell apart.
  const float best = *std::min_element(least.begin(), least.end());
  if (best == kNever) return count;
  std::size_t chosen = 0;
  while (least[chosen] > best * 1.03F) ++chosen;
  context_.tuned_engines().keep(key(), {.engine = static_cast<std::int64_t>(chosen), .knobs = {}});
  return chosen;
}

void LtProduct::run(const void* a, const void* b, const void* bias, void* d, void* workspace) {
  run(algorithm_, a, b, bias, d, workspace);
}

void LtProduct::run(const cublasLtMatmulAlgo_t& algorithm, const void* a, const void* b,
                    const void* bias, void* d, void* workspace) {
  if (has_bias_pointer()) set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  void* aligned = reinterpret_cast<void*>(padded(address));
  const double one[] = {1, 0};
  const float single[] = {1, 0};
  const bool is_double = problem_.inputs == DType::kFloat64;
  const void* alpha = is_double ? static_cast<const void*>(&one[0]) : &single[0];
  const void* beta = is_double ? static_cast<const void*>(&one[1]) : &single[1];
  DEMI_CUDA_CHECK(cublasLtMatmul(context_.cublas_lt(), operation_, alpha, a, a_, b, b_, beta, d, d_,
                                 d, d_, &algorithm, aligned, workspace_bytes() - 256,
                                 context_.stream()));
}

}  // namespace demi::cuda
