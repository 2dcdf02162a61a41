// Elements whose dtype is known at run time, for kernels in which loads and stores are rare beside
// the arithmetic: one compiled kernel then serves every combination of dtypes.
#pragma once

#include <cstdint>

#include <demi/dtype.h>

#include "kernels/cuda/element.cuh"

namespace demi::cuda {

/// Elements of a floating dtype to be read as C (float or double).
struct AnyInput {
  const void* data;
  DType dtype;

  template <class C>
  __device__ C get(std::int64_t i) const {
    switch (dtype) {
      case DType::kFloat16:
        return static_cast<C>(load(static_cast<const __half*>(data)[i]));
      case DType::kBFloat16:
        return static_cast<C>(load(static_cast<const __nv_bfloat16*>(data)[i]));
      case DType::kFloat64:
        return static_cast<C>(static_cast<const double*>(data)[i]);
      default:
        return static_cast<C>(static_cast<const float*>(data)[i]);
    }
  }
};

/// Elements of a floating dtype to be written, rounded once.
struct AnyOutput {
  void* data;
  DType dtype;

  template <class C>
  __device__ void set(std::int64_t i, C value) const {
    switch (dtype) {
      case DType::kFloat16:
        static_cast<__half*>(data)[i] = store<__half>(value);
        return;
      case DType::kBFloat16:
        static_cast<__nv_bfloat16*>(data)[i] = store<__nv_bfloat16>(value);
        return;
      case DType::kFloat64:
        static_cast<double*>(data)[i] = static_cast<double>(value);
        return;
      default:
        static_cast<float*>(data)[i] = static_cast<float>(value);
    }
  }
};

}  // namespace demi::cuda
