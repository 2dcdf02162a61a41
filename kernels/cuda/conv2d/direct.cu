#include "kernels/cuda/conv2d/candidates.h"
#include "kernels/cuda/conv2d/direct_products.cuh"

namespace demi::cuda {
namespace {

/// Whether one operand is float64, so that sums are double.
bool is_wide(const KernelRequest& request) {
  for (const TensorType& type : request.inputs) {
    if (type.dtype == float64) return true;
  }
  return request.outputs[0].dtype == float64;
}

bool fits_a_grid(std::int64_t blocks, std::string& reason) {
  if (blocks < (std::int64_t{1} << 31)) return true;
  reason = "it takes more than 2^31 blocks";
  return false;
}

template <class C>
std::unique_ptr<Kernel> forward(const Conv2DProblem& problem, Context& context,
                                std::string& reason) {
  DirectForward<C> product{make_geometry(problem), {}, {}, {}, {}, problem.relu};
  if (!fits_a_grid(block_count(product), reason)) return nullptr;
  return make_kernel("direct", 0, [=, stream = context.stream()](const KernelArguments& a) {
    DirectForward<C> bound = product;
    bound.x = {a.inputs[0], problem.x_dtype};
    bound.filter = {a.inputs[1], problem.filter_dtype};
    if (problem.has_bias) bound.bias = {a.inputs[2], problem.bias_dtype};
    bound.y = {a.outputs[0], problem.y_dtype};
    launch_product(bound, stream);
  });
}

template <class C>
std::unique_ptr<Kernel> backward_input(const Conv2DProblem& problem, Context& context,
                                       std::string& reason) {
  DirectBackwardInput<C> product{make_geometry(problem), {}, {}, {}};
  if (!fits_a_grid(block_count(product), reason)) return nullptr;
  return make_kernel("direct", 0, [=, stream = context.stream()](const KernelArguments& a) {
    DirectBackwardInput<C> bound = product;
    bound.dy = {a.inputs[0], problem.y_dtype};
    bound.filter = {a.inputs[1], problem.filter_dtype};
    bound.dx = {a.outputs[0], problem.x_dtype};
    launch_product(bound, stream);
  });
}

template <class C>
std::unique_ptr<Kernel> backward_filter(const Conv2DProblem& problem, Context& context,
                                        std::string& reason) {
  DirectBackwardFilter<C> product{make_geometry(problem), {}, {}, {}, nullptr, 1};
  product.splits = filter_splits(block_count(product), problem.pixels());
  if (!fits_a_grid(block_count(product), reason)) return nullptr;
  const std::int64_t weights = problem.taps() * problem.co;
  const std::size_t workspace =
      product.splits == 1 ? 0 : static_cast<std::size_t>(product.splits * weights) * sizeof(C);
  const auto body = [=, stream = context.stream()](const KernelArguments& a) {
    DirectBackwardFilter<C> bound = product;
    bound.x = {a.inputs[0], problem.x_dtype};
    bound.dy = {a.inputs[1], problem.y_dtype};
    bound.dw = {a.outputs[0], problem.filter_dtype};
    bound.partial = bound.splits == 1 ? nullptr : static_cast<C*>(a.workspace);
    launch_product(bound, stream);
    if (bound.splits > 1) {
      launch_partial_sums(bound.partial, bound.splits, weights, bound.dw, stream);
    }
  };
  return make_kernel("direct", workspace, body, product.splits == 1 ? 1 : 2);
}

}  // namespace

std::unique_ptr<Kernel> make_direct_forward(const KernelRequest& request, Context& context,
                                            std::string& reason) {
  if (request.attributes.as<ops::Conv2DAttributes>().has_pool) {
    reason = "a pooling follows";
    return nullptr;
  }
  const Conv2DProblem problem = conv2d_problem(request);
  return is_wide(request) ? forward<double>(problem, context, reason)
                          : forward<float>(problem, context, reason);
}

std::unique_ptr<Kernel> make_direct_backward_input(const KernelRequest& request, Context& context,
                                                   std::string& reason) {
  const Conv2DProblem problem = conv2d_backward_input_problem(request);
  return is_wide(request) ? backward_input<double>(problem, context, reason)
                          : backward_input<float>(problem, context, reason);
}

std::unique_ptr<Kernel> make_direct_backward_filter(const KernelRequest& request, Context& context,
                                                    std::string& reason) {
  const Conv2DProblem problem = conv2d_backward_filter_problem(request);
  return is_wide(request) ? backward_filter<double>(problem, context, reason)
                          : backward_filter<float>(problem, context, reason);
}

}  // namespace demi::cuda
