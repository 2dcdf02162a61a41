// Candidates of the family matmul: own kernels for narrow matrices, cuBLASLt, alone or followed by
// an own kernel for what its epilogue leaves, then the plain product.

#include <algorithm>

#include <demi/ops/matmul.h>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/matmul/direct.h"
#include "kernels/cuda/matmul/narrow.h"
#include "kernels/cuda/reduction/reduction.h"

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
          .mask = nullptr,
          .mask_dtype = y.dtype,
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
    product->run(arguments.inputs[1], arguments.inputs[0], has_bias ? arguments.inputs[2] : nullptr,
                 now.y, arguments.workspace);
    if (now.relu) finish(now, context.stream());
  };
  return make_kernel("cublaslt", product->workspace_bytes(), body, job.relu ? 2 : 1,
                     product->tensor_cores());
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
  return make_kernel("cublaslt_then_bias", product_bytes + sums_bytes, body, 2,
                     product->tensor_cores());
}

/// A product with the gradient of a bias: both by cuBLASLt.
std::unique_ptr<Kernel> make_bias_gradient(const KernelRequest& request, Context& context,
                                           std::string& reason) {
  if (!check_dtypes(request, reason)) return nullptr;
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  LtProblem problem = transposed_problem(request);
  problem.has_bias_gradient = true;
  const bool one_dtype = request.outputs[0].dtype == request.outputs[1].dtype;
  if (!attributes.bias_gradient || attributes.transpose_b || !one_dtype || is_empty(problem)) {
    reason = "cuBLASLt sums a gradient [k, n] that is not empty, in the dtype of the product";
    return nullptr;
  }
  std::shared_ptr<LtProduct> product = LtProduct::make(problem, context, reason);
  if (!product) return nullptr;
  const auto body = [product](const KernelArguments& arguments) {
    product->run(arguments.inputs[1], arguments.inputs[0], arguments.outputs[1],
                 arguments.outputs[0], arguments.workspace);
  };
  return make_kernel("cublaslt", product->workspace_bytes(), body, 1, product->tensor_cores());
}

/// A product by any candidate, then the gradient of a bias by a reduction.
std::unique_ptr<Kernel> make_then_sum(const KernelRequest& request, Context& context,
                                      std::string& reason) {
  auto attributes = request.attributes.as<ops::MatmulAttributes>();
  if (!attributes.bias_gradient) {
    reason = "no sums are wanted";
    return nullptr;
  }
  attributes.bias_gradient = false;
  const Attributes alone = attributes;
  const KernelRequest first{request.op, alone, request.inputs, request.outputs.first(1)};
  std::shared_ptr<Kernel> product = make_epilogue(first, context, reason);
  if (product == nullptr) product = matmul::make_direct(first, context, reason);
  const AxisSet inner = attributes.transpose_b ? AxisSet{0b10} : AxisSet{0b01};
  std::shared_ptr<Kernel> sum =
      make_reduction(Reduction::kSum, request.inputs[1], inner, request.outputs[1].dtype, context);
  const auto body = [product, sum](const KernelArguments& a) {
    product->run({a.inputs, a.outputs.first(1), a.workspace});
    sum->run({a.inputs.subspan(1, 1), a.outputs.subspan(1), a.workspace});
  };
  return make_kernel(product->name() + "_then_sum",
                     std::max(product->workspace_bytes(), sum->workspace_bytes()), body,
                     product->launches() + sum->launches(), product->tensor_cores());
}

/// A product by any candidate, then relu_backward in place.
std::unique_ptr<Kernel> make_then_mask(const KernelRequest& request, Context& context,
                                       std::string& reason) {
  auto attributes = request.attributes.as<ops::MatmulAttributes>();
  if (!attributes.relu_backward) {
    reason = "no mask follows";
    return nullptr;
  }
  attributes.relu_backward = false;
  const Attributes alone = attributes;
  const KernelRequest first{request.op, alone, request.inputs.first(2), request.outputs};
  std::shared_ptr<Kernel> product = make_epilogue(first, context, reason);
  if (product == nullptr) product = matmul::make_direct(first, context, reason);
  Finish job = finish_of(first);
  job.mask_dtype = request.inputs[2].dtype;
  const auto body = [product, job, &context](const KernelArguments& a) {
    product->run({a.inputs.first(2), a.outputs, a.workspace});
    Finish now = job;
    now.sums = now.y = a.outputs[0];
    now.mask = a.inputs[2];
    finish(now, context.stream());
  };
  return make_kernel(product->name() + "_then_mask", product->workspace_bytes(), body,
                     product->launches() + 1, product->tensor_cores());
}

/// Whether one of the forms below has to make what a product brings with it.
bool is_plain(const KernelRequest& request, std::string& reason) {
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  if (!attributes.relu_backward && !attributes.bias_gradient) return true;
  reason = "a mask or a sum goes with the product";
  return false;
}

/// A candidate that knows of neither masks nor sums.
template <Factory kMake>
std::unique_ptr<Kernel> plain(const KernelRequest& request, Context& context, std::string& reason) {
  return is_plain(request, reason) ? kMake(request, context, reason) : nullptr;
}

}  // namespace

void register_matmul_kernels(Registry& registry) {
  registry.add("matmul", "few_columns", matmul::make_few_columns);
  registry.add("matmul", "few_terms", matmul::make_few_terms);
  registry.add("matmul", "cublaslt", plain<make_epilogue>);
  registry.add("matmul", "cublaslt_then_bias", plain<make_separate>);
  registry.add("matmul", "direct", plain<matmul::make_direct>);
  registry.add("matmul", "with_bias_gradient", make_bias_gradient);
  registry.add("matmul", "then_sum", make_then_sum);
  registry.add("matmul", "then_mask", make_then_mask);
}

}  // namespace demi::cuda
