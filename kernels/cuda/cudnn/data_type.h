// demi's dtypes as cuDNN names them.
#pragma once

#include <cudnn.h>

#include <demi/dtype.h>

#include "src/core/check.h"

namespace demi::cuda::cudnn {

/// Of a floating dtype.
[[nodiscard]] inline cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return CUDNN_DATA_DOUBLE;
    case DType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case DType::kFloat16:
      return CUDNN_DATA_HALF;
    case DType::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      DEMI_CHECK(false, "cuDNN computes floating tensors only");
      return CUDNN_DATA_FLOAT;
  }
}

}  // namespace demi::cuda::cudnn
