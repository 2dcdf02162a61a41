#include "kernels/cuda/cudnn/call.h"

#include <fmt/format.h>

#include "kernels/cuda/cudnn/data_type.h"

namespace demi::cuda::cudnn {

TensorDescriptor::TensorDescriptor(DType dtype, int n, int h, int w, int c) {
  DEMI_CUDA_CHECK(
      cudnnSetTensor4dDescriptor(get(), CUDNN_TENSOR_NHWC, data_type(dtype), n, c, h, w));
}

bool takes_dtype(DType dtype, const Context& context, std::string& reason) {
  if (!is_floating(dtype)) {
    reason = fmt::format("cuDNN's call is of floating tensors, not of {}", to_string(dtype));
    return false;
  }
  if (dtype == bfloat16 && !context.properties().supports_bfloat16()) {
    reason = "bfloat16 needs a GPU of compute capability 8.0";
    return false;
  }
  return true;
}

}  // namespace demi::cuda::cudnn
