#include "kernels/cuda/conv2d/problem.h"

#include <fmt/format.h>

namespace demi::cuda {
namespace {

Conv2DProblem problem_of(const KernelRequest& request, const TensorType& x,
                         const TensorType& filter, const TensorType& y) {
  const auto& attributes = request.attributes.as<ops::Conv2DAttributes>();
  Conv2DProblem problem;
  problem.n = x.shape[0];
  problem.h = x.shape[1];
  problem.w = x.shape[2];
  problem.ci = x.shape[3];
  problem.oh = y.shape[1];
  problem.ow = y.shape[2];
  problem.co = y.shape[3];
  problem.filter_is_ohwi = attributes.filter_layout == ops::FilterLayout::kOhwi;
  problem.kh = filter.shape[problem.filter_is_ohwi ? 1 : 0];
  problem.kw = filter.shape[problem.filter_is_ohwi ? 2 : 1];
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
  problem.filter_dtype = filter.dtype;
  problem.y_dtype = y.dtype;
  problem.has_bias = attributes.has_bias;
  problem.relu = attributes.activation == ops::Activation::kRelu;
  return problem;
}

}  // namespace

std::string Conv2DProblem::key() const {
  return fmt::format(
      "n={} h={} w={} ci={} kh={} kw={} co={} strides={},{} dilation={},{} groups={} "
      "padding={},{},{},{} x={} filter={} y={} bias={} relu={:d}",
      n, h, w, ci, kh, kw, co, stride_h, stride_w, dilation_h, dilation_w, groups, pad_top,
      pad_bottom, pad_left, pad_right, to_string(x_dtype), to_string(filter_dtype),
      to_string(y_dtype), has_bias ? to_string(bias_dtype) : "none", relu);
}

Conv2DProblem conv2d_problem(const KernelRequest& request) {
  Conv2DProblem problem =
      problem_of(request, request.inputs[0], request.inputs[1], request.outputs[0]);
  if (problem.has_bias) problem.bias_dtype = request.inputs[2].dtype;
  return problem;
}

Conv2DProblem conv2d_backward_input_problem(const KernelRequest& request) {
  return problem_of(request, request.outputs[0], request.inputs[1], request.inputs[0]);
}

Conv2DProblem conv2d_backward_filter_problem(const KernelRequest& request) {
  return problem_of(request, request.inputs[0], request.outputs[0], request.inputs[1]);
}

}  // namespace demi::cuda
