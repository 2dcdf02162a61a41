// Candidates of the family pooling.

#include "kernels/cuda/pooling/register.h"

namespace demi::cuda {

void register_pooling_kernels(Registry& registry) {
  registry.add("max_pool2d", "packets", pooling::make_max_pool2d);
  registry.add("max_pool2d_backward", "packets", pooling::make_max_pool2d_backward);
  registry.add("max_pool2d_backward", "packets_and_sums", pooling::make_max_pool2d_backward_sum);
  registry.add("max_pool2d_backward", "packets_then_sum",
               pooling::make_max_pool2d_backward_then_sum);
  registry.add("max_pool2d_backward", "packets_from_image",
               pooling::make_max_pool2d_backward_from_image);
  registry.add_rival("max_pool2d", "cudnn", pooling::make_cudnn_max_pool2d);
  registry.add_rival("max_pool2d_backward", "cudnn", pooling::make_cudnn_max_pool2d_backward);
  registry.add("average_pool2d", "packets", pooling::make_average_pool2d);
  registry.add("average_pool2d_backward", "packets", pooling::make_average_pool2d_backward);
}

}  // namespace demi::cuda
