// Candidates of the family pooling.

#include "kernels/cuda/pooling/register.h"

namespace demi::cuda {

void register_pooling_kernels(Registry& registry) {
  registry.add("max_pool2d", "packets", pooling::make_max_pool2d);
  registry.add("max_pool2d_backward", "packets", pooling::make_max_pool2d_backward);
  registry.add("average_pool2d", "packets", pooling::make_average_pool2d);
  registry.add("average_pool2d_backward", "packets", pooling::make_average_pool2d_backward);
}

}  // namespace demi::cuda
