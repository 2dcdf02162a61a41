// Candidates of the family batch_norm.

#include "kernels/cuda/batch_norm/register.h"

namespace demi::cuda {

void register_batch_norm_kernels(Registry& registry) {
  registry.add("batch_norm_train", "packets", batch_norm::make_train);
  registry.add_rival("batch_norm_train", "cudnn", batch_norm::make_cudnn_train);
  registry.add("batch_norm_inference", "packets", batch_norm::make_inference);
  registry.add_rival("batch_norm_inference", "cudnn", batch_norm::make_cudnn_inference);
  registry.add("batch_norm_backward", "packets", batch_norm::make_backward);
  registry.add_rival("batch_norm_backward", "cudnn", batch_norm::make_cudnn_backward);
  registry.add("batch_norm_inference_backward", "packets", batch_norm::make_inference_backward);
  registry.add_rival("batch_norm_inference_backward", "cudnn",
                     batch_norm::make_cudnn_inference_backward);
}

}  // namespace demi::cuda
