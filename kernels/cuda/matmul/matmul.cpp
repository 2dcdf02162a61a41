// Candidates of the family matmul: cuBLASLt, alone or followed by an own kernel for what its
// epilogue leaves, then the plain product.

#include <demi/ops/matmul.h>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/matmul/direct.h"

namespace demi::cuda {
namespace {

using matmul::Finish;
using matmul::finish;

/// y [m, n] = op(a) · op(b), read as the column-major transposes: yᵀ = op(b)ᵀ · op(a)ᵀ.
LtProblem transposed_problem(const KernelRequest& request) {
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  const TensorType& a = request.inputs[0];
  const TensorType& y = request.outputs[0];
  return {.m = y.shape[1],
          .n = y.shape[0],
          .k = a.shape[attributes.transpose_a ? 0 : 1],
          .transpose_a = attributes.transpose_b,
          .transpose_b = attributes.transpose_a,
          .inputs = a.dtype,
          .output = y.dtype,
          .has_bias = attributes.has_bias};
}

/// What remains to be done in y after the product; addresses are filled in at a run.
Finish finish_of(const KernelRequest& request) {
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  const TensorType& y = request.outputs[0];
  return {.sums = nullptr,
          .sums_dtype = y.dtype,
          .bias = nullptr,
          .bias_dtype = attributes.has_bias ? request.inputs[2].dtype : y.dtype,
          .y = nullptr,
          .y_dtype = y.dtype,
          .rows = y.shape[0],
          .columns = y.shape[1],
          .relu = attributes.activation == ops::Activation::kRelu};
}

bool check_dtypes(const KernelRequest& request, std::string& reason) {
  if (request.inputs[0].dtype == request.inputs[1].dtype) return true;
  reason = "cuBLASLt multiplies matrices of one dtype";
  return false;
}

/// A product of nothing: zeros, then what follows a product.
std::unique_ptr<Kernel> make_empty(const KernelRequest& request, Context& context) {
  const bool has_bias = request.attributes.as<ops::MatmulAttributes>().has_bias;
  return make_kernel("empty", 0,
                     [job = finish_of(request), has_bias, &context](const KernelArguments& a) {
                       Finish now = job;
                       now.bias = has_bias ? a.inputs[2] : nullptr;
                       now.y = a.outputs[0];
                       finish(now, context.stream());
                     });
}

bool is_empty(const LtProblem& problem) {
  return problem.m == 0 || problem.n == 0 || problem.k == 0;
}

/// The bias in cuBLASLt's epilogue; relu, which there would lose NaNs, in place after it.
std::unique_ptr<Kernel> make_epilogue(const KernelRequest& request, Context& context,
                                      std::string& reason) {
  if (!check_dtypes(request, reason)) return nullptr;
  const LtProblem problem = transposed_problem(request);
  if (is_empty(problem)) return make_empty(request, context);
  if (problem.has_bias && request.inputs[2].dtype != problem.output) {
    reason = "cuBLASLt adds a bias of the dtype of the result";
    return nullptr;
  }
  std::shared_ptr<LtProduct> product = LtProduct::make(problem, context, reason);
  if (!product) return nullptr;
  const Finish job = finish_of(request);
  const auto body = [product, job, has_bias = problem.has_bias,
                     &context](const KernelArguments& arguments) {
    Finish now = job;
    now.sums = now.y = arguments.outputs[0];
    product->run(arguments.inputs[1], arguments.inputs[0],
                 has_bias ? arguments.inputs[2] : nullptr, now.y, arguments.workspace);
    if (now.relu) finish(now, context.stream());
  };
  return make_kernel("cublaslt", product->workspace_bytes(), body, job.relu ? 2 : 1);
}

/// The product alone by cuBLASLt, in float32 where y is of 16 bits, so that the bias is added
/// before the one rounding.
std::unique_ptr<Kernel> make_separate(const KernelRequest& request, Context& context,
                                      std::string& reason) {
  if (!check_dtypes(request, reason)) return nullptr;
  LtProblem problem = transposed_problem(request);
  if (!problem.has_bias) {
    reason = "there is no bias to add separately";
    return nullptr;
  }
  problem.has_bias = false;
  const bool is_narrow = is_half(problem.output);
  if (is_narrow) problem.output = DType::kFloat32;
  std::shared_ptr<LtProduct> product = LtProduct::make(problem, context, reason);
  if (!product) return nullptr;
  const std::size_t product_bytes = product->workspace_bytes();
  const std::size_t sums_bytes =
      is_narrow ? static_cast<std::size_t>(problem.m * problem.n) * sizeof(float) : 0;
  Finish job = finish_of(request);
  job.sums_dtype = problem.output;
  const auto body = [product, product_bytes, job, is_narrow,
                     &context](const KernelArguments& arguments) {
    Finish now = job;
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    now.y = arguments.outputs[0];
    now.bias = arguments.inputs[2];
    void* sums = is_narrow ? workspace + product_bytes : now.y;
    now.sums = sums;
    product->run(arguments.inputs[1], arguments.inputs[0], nullptr, sums, workspace);
    finish(now, context.stream());
  };
  return make_kernel("cublaslt_then_bias", product_bytes + sums_bytes, body, 2);
}

}  // namespace

void register_matmul_kernels(Registry& registry) {
  registry.add("matmul", "cublaslt", make_epilogue);
  registry.add("matmul", "cublaslt_then_bias", make_separate);
  registry.add("matmul", "direct", matmul::make_direct);
}

}  // namespace demi::cuda
