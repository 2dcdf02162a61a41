#include "kernels/cuda/conv2d/candidates.h"
#include "kernels/cuda/registry.h"

namespace demi::cuda {

void register_conv2d_kernels(Registry& registry) {
  registry.add("conv2d", "cudnn", make_cudnn_forward);
  registry.add("conv2d", "cudnn_then_bias", make_cudnn_forward_then_bias);
  registry.add("conv2d", "direct", make_direct_forward);
  registry.add("conv2d", "then_pool", make_forward_then_pool);
  registry.add("conv2d_backward_input", "cudnn", make_cudnn_backward_input);
  registry.add("conv2d_backward_input", "direct", make_direct_backward_input);
  registry.add("conv2d_backward_filter", "cudnn", make_cudnn_backward_filter);
  registry.add("conv2d_backward_filter", "direct", make_direct_backward_filter);
  registry.add("conv2d_backward_input_pooled", "scatter_first", make_backward_input_scattered);
  registry.add("conv2d_backward_filter_pooled", "scatter_first", make_backward_filter_scattered);
}

}  // namespace demi::cuda
