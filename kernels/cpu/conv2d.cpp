// Kernels of the family conv2d: the functions of conv2d.h as candidates. A pooled form they do not
// take is done in two steps, with the image that was to be avoided in the workspace.

#include "kernels/cpu/conv2d.h"

#include <algorithm>
#include <utility>

#include <demi/ops/conv2d.h>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/pooling.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/workspace.h"

namespace demi::cpu {
namespace {

using ops::Conv2DAttributes;

/// The convolution of x by filter into y, each with the dtype it or its gradient has.
Conv2DProblem problem_of(const Conv2DAttributes& attributes, const TensorType& x,
                         const TensorType& filter, DType y) {
  Conv2DProblem problem;
  problem.n = x.shape[0];
  problem.h = x.shape[1];
  problem.w = x.shape[2];
  problem.ci = x.shape[3];
  problem.kh = filter.shape[0];
  problem.kw = filter.shape[1];
  problem.co = filter.shape[3];
  problem.stride_h = attributes.strides[0];
  problem.stride_w = attributes.strides[1];
  problem.dilation_h = attributes.dilation_rate[0];
  problem.dilation_w = attributes.dilation_rate[1];
  problem.groups = attributes.groups;
  problem.pad_top = attributes.padding.top;
  problem.pad_bottom = attributes.padding.bottom;
  problem.pad_left = attributes.padding.left;
  problem.pad_right = attributes.padding.right;
  problem.x_dtype = x.dtype;
  problem.w_dtype = filter.dtype;
  problem.y_dtype = y;
  problem.bias_dtype = y;
  if (attributes.activation == ops::Activation::kRelu || attributes.pool.relu) {
    problem.activation = Activation::kRelu;
  }
  return problem;
}

PoolWindow window_of(const Conv2DAttributes& attributes) {
  return {.size_h = attributes.pool.pool_size[0],
          .size_w = attributes.pool.pool_size[1],
          .stride_h = attributes.pool.strides[0],
          .stride_w = attributes.pool.strides[1]};
}

/// Whether the dtypes of a request are all float64 or none is; else says so in `reason`.
bool dtypes_meet(const KernelRequest& request, std::string& reason) {
  std::size_t floating = 0;
  std::size_t wide = 0;
  for (const auto types : {request.inputs, request.outputs}) {
    for (const TensorType& type : types) {
      floating += is_floating(type.dtype) ? 1 : 0;
      wide += type.dtype == float64 ? 1 : 0;
    }
  }
  if (wide == 0 || wide == floating) return true;
  reason = "float64 mixed with other dtypes";
  return false;
}

bool pool_is_unpadded(const Conv2DAttributes& attributes, std::string& reason) {
  if (attributes.pool.padding == ops::Padding2D{}) return true;
  reason = "the pooling is padded";
  return false;
}

// Note [Choosing an algorithm]
// A convolution that is a matrix product, 1 × 1 without strides, padding and groups, goes through
// gemm(), which cuts pixels and channels into chunks more freely and is up to 5 % faster. All
// others are summed directly: a direct sum reads the patches of the source where they lie (Note
// [One micro-kernel] in microkernels.h), so copying them into a matrix first would give the same
// loop more memory to read. The gradient by the filter is summed directly always: as a product it
// would have few rows and columns and one long sum, which gemm() does not cut. All of them add in
// the same order and give the same bits. Gradients through a max-pooling skip its zeros where they
// can.

/// Whether the convolution is the product of a matrix [pixels, ci] with the filter [ci, co].
bool is_product(const Conv2DProblem& p, std::string& reason) {
  if (p.kh == 1 && p.kw == 1 && p.stride_h == 1 && p.stride_w == 1 && p.groups == 1 &&
      p.pad_top + p.pad_bottom + p.pad_left + p.pad_right == 0) {
    return true;
  }
  reason = "not 1 x 1 without strides, padding and groups";
  return false;
}

// ---- Forward

std::unique_ptr<Kernel> make_forward_product(const KernelRequest& request, ThreadPool& pool,
                                             std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  if (attributes.has_pool) reason = "a pooling follows";
  if (attributes.has_pool || !dtypes_meet(request, reason)) return nullptr;
  const Conv2DProblem problem =
      problem_of(attributes, request.inputs[0], request.inputs[1], request.outputs[0].dtype);
  if (!is_product(problem, reason)) return nullptr;
  const GemmProblem gemm_problem{
      .m = problem.n * problem.h * problem.w,
      .n = problem.co,
      .k = problem.ci,
      .a_dtype = problem.x_dtype,
      .b_dtype = problem.w_dtype,
      .c_dtype = problem.y_dtype,
      .bias_dtype = attributes.has_bias ? request.inputs[2].dtype : problem.bias_dtype,
      .activation = problem.activation};
  return make_kernel("gemm", gemm_workspace_bytes(gemm_problem, pool.threads()),
                     [gemm_problem, &pool](const KernelArguments& a) {
                       gemm(gemm_problem, a.inputs[0], a.inputs[1],
                            a.inputs.size() > 2 ? a.inputs[2] : nullptr, a.outputs[0], a.workspace,
                            pool);
                     });
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request, ThreadPool& pool,
                                     std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  if (attributes.has_pool) reason = "a pooling follows";
  if (attributes.has_pool || !dtypes_meet(request, reason)) return nullptr;
  Conv2DProblem problem =
      problem_of(attributes, request.inputs[0], request.inputs[1], request.outputs[0].dtype);
  if (attributes.has_bias) problem.bias_dtype = request.inputs[2].dtype;
  return make_kernel("direct", conv2d_forward_workspace_bytes(problem, pool.threads()),
                     [problem, &pool](const KernelArguments& a) {
                       conv2d_forward(problem, a.inputs[0], a.inputs[1],
                                      a.inputs.size() > 2 ? a.inputs[2] : nullptr, a.outputs[0],
                                      a.workspace, pool);
                     });
}

std::unique_ptr<Kernel> make_forward_pooled(const KernelRequest& request, ThreadPool& pool,
                                            std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  if (!attributes.has_pool) reason = "no pooling follows";
  if (!attributes.has_pool || !pool_is_unpadded(attributes, reason) ||
      !dtypes_meet(request, reason)) {
    return nullptr;
  }
  Conv2DProblem problem =
      problem_of(attributes, request.inputs[0], request.inputs[1], request.outputs[0].dtype);
  if (attributes.has_bias) problem.bias_dtype = request.inputs[2].dtype;
  const PoolWindow window = window_of(attributes);
  return make_kernel(
      "direct_pooled", conv2d_forward_pooled_workspace_bytes(problem, window, pool.threads()),
      [problem, window, &pool](const KernelArguments& a) {
        conv2d_forward_pooled(problem, window, a.inputs[0], a.inputs[1],
                              a.inputs.size() > 2 ? a.inputs[2] : nullptr, a.outputs[0],
                              a.output<std::uint8_t>(1), a.workspace, pool);
      });
}

/// The image between a convolution and its pooling.
TensorType unpooled(const Conv2DProblem& problem) {
  return {Shape{problem.n, problem.out_h(), problem.out_w(), problem.co}, problem.y_dtype};
}

/// `first` writes a value of `type` into the workspace, `second` reads it.
struct TwoSteps {
  std::unique_ptr<Kernel> first;
  std::unique_ptr<Kernel> second;
  WorkspaceLayout layout;
  std::size_t between;
  std::size_t rest;

  TwoSteps(std::unique_ptr<Kernel> a, std::unique_ptr<Kernel> b, const TensorType& type)
      : first(std::move(a)), second(std::move(b)) {
    between = layout.reserve<char>(static_cast<std::int64_t>(type.bytes()));
    rest = layout.reserve<char>(
        static_cast<std::int64_t>(std::max(first->workspace_bytes(), second->workspace_bytes())));
  }
};

std::unique_ptr<Kernel> make_forward_then_pool(const KernelRequest& request, ThreadPool& pool,
                                               std::string& reason) {
  auto attributes = request.attributes.as<Conv2DAttributes>();
  if (!attributes.has_pool) {
    reason = "no pooling follows";
    return nullptr;
  }
  const TensorType image = unpooled(
      problem_of(attributes, request.inputs[0], request.inputs[1], request.outputs[0].dtype));
  const Attributes pooling = attributes.pool;
  attributes.has_pool = false;
  const Attributes convolution = attributes;
  auto first = make_forward({"conv2d", convolution, request.inputs, {&image, 1}}, pool, reason);
  auto second =
      make_max_pool2d({"max_pool2d", pooling, {&image, 1}, request.outputs}, pool, reason);
  if (first == nullptr || second == nullptr) return nullptr;
  TwoSteps steps(std::move(first), std::move(second), image);
  const std::size_t bytes = steps.layout.bytes();
  return make_kernel("direct_then_pool", bytes,
                     [steps = std::move(steps)](const KernelArguments& a) {
                       void* between = piece<char>(a.workspace, steps.between);
                       const void* pooled = between;
                       void* rest = piece<char>(a.workspace, steps.rest);
                       steps.first->run({a.inputs, {&between, 1}, rest});
                       steps.second->run({{&pooled, 1}, a.outputs, rest});
                     });
}

// ---- Backward

/// dx [pixels, ci] = dy [pixels, co] · filterᵀ.
std::unique_ptr<Kernel> make_backward_input_product(const KernelRequest& request, ThreadPool& pool,
                                                    std::string& reason) {
  if (!dtypes_meet(request, reason)) return nullptr;
  const Conv2DProblem problem =
      problem_of(request.attributes.as<Conv2DAttributes>(), request.outputs[0], request.inputs[1],
                 request.inputs[0].dtype);
  if (!is_product(problem, reason)) return nullptr;
  const GemmProblem gemm_problem{.m = problem.n * problem.h * problem.w,
                                 .n = problem.ci,
                                 .k = problem.co,
                                 .transpose_b = true,
                                 .a_dtype = problem.y_dtype,
                                 .b_dtype = problem.w_dtype,
                                 .c_dtype = problem.x_dtype};
  return make_kernel("gemm", gemm_workspace_bytes(gemm_problem, pool.threads()),
                     [gemm_problem, &pool](const KernelArguments& a) {
                       gemm(gemm_problem, a.inputs[0], a.inputs[1], nullptr, a.outputs[0],
                            a.workspace, pool);
                     });
}

std::unique_ptr<Kernel> make_backward_input(const KernelRequest& request, ThreadPool& pool,
                                            std::string& reason) {
  if (!dtypes_meet(request, reason)) return nullptr;
  const Conv2DProblem problem =
      problem_of(request.attributes.as<Conv2DAttributes>(), request.outputs[0], request.inputs[1],
                 request.inputs[0].dtype);
  return make_kernel("direct", conv2d_backward_input_workspace_bytes(problem, pool.threads()),
                     [problem, &pool](const KernelArguments& a) {
                       conv2d_backward_input(problem, a.inputs[1], a.inputs[0], a.outputs[0],
                                             a.workspace, pool);
                     });
}

std::unique_ptr<Kernel> make_backward_filter(const KernelRequest& request, ThreadPool& pool,
                                             std::string& reason) {
  if (!dtypes_meet(request, reason)) return nullptr;
  const Conv2DProblem problem =
      problem_of(request.attributes.as<Conv2DAttributes>(), request.inputs[0], request.outputs[0],
                 request.inputs[1].dtype);
  return make_kernel("direct", conv2d_backward_filter_workspace_bytes(problem, pool.threads()),
                     [problem, &pool](const KernelArguments& a) {
                       conv2d_backward_filter(problem, a.inputs[0], a.inputs[1], a.outputs[0],
                                              a.workspace, pool);
                     });
}

/// Whether the functions that skip the zeros of a pooling's gradient take `problem`.
bool takes_pooled(const Conv2DAttributes& attributes, const Conv2DProblem& problem,
                  std::string& reason) {
  if (!pool_is_unpadded(attributes, reason)) return false;
  if (conv2d_backward_pooled_supports(problem, window_of(attributes))) return true;
  reason = "strides, dilation, groups, overlapping windows or a large image";
  return false;
}

std::unique_ptr<Kernel> make_backward_input_pooled(const KernelRequest& request, ThreadPool& pool,
                                                   std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  const Conv2DProblem problem =
      problem_of(attributes, request.outputs[0], request.inputs[0], request.inputs[1].dtype);
  if (!dtypes_meet(request, reason) || !takes_pooled(attributes, problem, reason)) return nullptr;
  const PoolWindow window = window_of(attributes);
  return make_kernel(
      "sparse", conv2d_backward_input_pooled_workspace_bytes(problem, window, pool.threads()),
      [problem, window, &pool](const KernelArguments& a) {
        conv2d_backward_input_pooled(problem, window, a.inputs[0], a.inputs[1],
                                     a.input<std::uint8_t>(2), a.outputs[0], a.workspace, pool);
      });
}

std::unique_ptr<Kernel> make_backward_filter_pooled(const KernelRequest& request, ThreadPool& pool,
                                                    std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  const Conv2DProblem problem =
      problem_of(attributes, request.inputs[0], request.outputs[0], request.inputs[1].dtype);
  if (!dtypes_meet(request, reason) || !takes_pooled(attributes, problem, reason)) return nullptr;
  const PoolWindow window = window_of(attributes);
  return make_kernel(
      "sparse", conv2d_backward_filter_pooled_workspace_bytes(problem, window, pool.threads()),
      [problem, window, &pool](const KernelArguments& a) {
        conv2d_backward_filter_pooled(problem, window, a.inputs[0], a.inputs[1],
                                      a.input<std::uint8_t>(2), a.outputs[0], a.workspace, pool);
      });
}

/// The pooling's gradient scattered into the workspace, then the dense op of it and input 0.
std::unique_ptr<Kernel> make_scattered(const KernelRequest& request, const Conv2DProblem& problem,
                                       ThreadPool& pool, std::string& reason, Factory dense,
                                       bool dy_first) {
  auto attributes = request.attributes.as<Conv2DAttributes>();
  const TensorType image = unpooled(problem);
  attributes.pool.image_size = {problem.out_h(), problem.out_w()};
  attributes.pool.relu = false;
  const Attributes pooling = attributes.pool;
  attributes.has_pool = false;
  const Attributes convolution = attributes;
  auto first = make_max_pool2d_backward(
      {"max_pool2d_backward", pooling, request.inputs.subspan(1), {&image, 1}}, pool, reason);
  const TensorType& other = request.inputs[0];
  const TensorType inputs[] = {dy_first ? image : other, dy_first ? other : image};
  auto second = dense({request.op, convolution, inputs, request.outputs}, pool, reason);
  if (first == nullptr || second == nullptr) return nullptr;
  TwoSteps steps(std::move(first), std::move(second), image);
  const std::size_t bytes = steps.layout.bytes();
  return make_kernel(
      "scatter_then_direct", bytes, [steps = std::move(steps), dy_first](const KernelArguments& a) {
        void* dy = piece<char>(a.workspace, steps.between);
        void* rest = piece<char>(a.workspace, steps.rest);
        steps.first->run({a.inputs.subspan(1), {&dy, 1}, rest});
        const void* inputs[] = {dy_first ? dy : a.inputs[0], dy_first ? a.inputs[0] : dy};
        steps.second->run({inputs, a.outputs, rest});
      });
}

std::unique_ptr<Kernel> make_backward_input_scattered(const KernelRequest& request,
                                                      ThreadPool& pool, std::string& reason) {
  const Conv2DProblem problem =
      problem_of(request.attributes.as<Conv2DAttributes>(), request.outputs[0], request.inputs[0],
                 request.inputs[1].dtype);
  return make_scattered(request, problem, pool, reason, make_backward_input, true);
}

std::unique_ptr<Kernel> make_backward_filter_scattered(const KernelRequest& request,
                                                       ThreadPool& pool, std::string& reason) {
  const Conv2DProblem problem =
      problem_of(request.attributes.as<Conv2DAttributes>(), request.inputs[0], request.outputs[0],
                 request.inputs[1].dtype);
  return make_scattered(request, problem, pool, reason, make_backward_filter, false);
}

}  // namespace

void register_conv2d_kernels(Registry& registry) {
  registry.add("conv2d", "gemm", make_forward_product);
  registry.add("conv2d", "direct", make_forward);
  registry.add("conv2d", "direct_pooled", make_forward_pooled);
  registry.add("conv2d", "direct_then_pool", make_forward_then_pool);
  registry.add("conv2d_backward_input", "gemm", make_backward_input_product);
  registry.add("conv2d_backward_input", "direct", make_backward_input);
  registry.add("conv2d_backward_filter", "direct", make_backward_filter);
  registry.add("conv2d_backward_input_pooled", "sparse", make_backward_input_pooled);
  registry.add("conv2d_backward_input_pooled", "scatter_then_direct",
               make_backward_input_scattered);
  registry.add("conv2d_backward_filter_pooled", "sparse", make_backward_filter_pooled);
  registry.add("conv2d_backward_filter_pooled", "scatter_then_direct",
               make_backward_filter_scattered);
}

}  // namespace demi::cpu
