// Kernels of the family matmul.

#include <demi/ops/matmul.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request, ThreadPool& pool,
                                  std::string& reason) {
  const auto& attributes = request.attributes.as<ops::MatmulAttributes>();
  if (attributes.relu_backward || attributes.bias_gradient) {
    reason = "it masks and sums no gradients";
    return nullptr;
  }
  const TensorType& a = request.inputs[0];
  const TensorType& y = request.outputs[0];
  GemmProblem problem;
  problem.m = y.shape[0];
  problem.n = y.shape[1];
  problem.k = a.shape[attributes.transpose_a ? 0 : 1];
  problem.transpose_a = attributes.transpose_a;
  problem.transpose_b = attributes.transpose_b;
  problem.a_dtype = a.dtype;
  problem.b_dtype = request.inputs[1].dtype;
  problem.c_dtype = y.dtype;
  problem.bias_dtype = attributes.has_bias ? request.inputs[2].dtype : y.dtype;
  problem.activation =
      attributes.activation == ops::Activation::kRelu ? Activation::kRelu : Activation::kNone;
  int wide = 0;
  for (const DType dtype :
       {problem.a_dtype, problem.b_dtype, problem.c_dtype, problem.bias_dtype}) {
    if (dtype == float64) ++wide;
  }
  if (wide != 0 && wide != 4) {
    reason = "float64 mixed with other dtypes";
    return nullptr;
  }
  return make_kernel(
      "gemm", gemm_workspace_bytes(problem, pool.threads()),
      [problem, &pool, bias = attributes.has_bias](const KernelArguments& arguments) {
        gemm(problem, arguments.inputs[0], arguments.inputs[1],
             bias ? arguments.inputs[2] : nullptr, arguments.outputs[0], arguments.workspace, pool);
      });
}

}  // namespace

void register_matmul_kernels(Registry& registry) {
  registry.add("matmul", "gemm", make_gemm);
}

}  // namespace demi::cpu
