// Elements whose dtype is known at run time, for kernels in which loads and stores are rare beside
// the arithmetic: one compiled kernel then serves every combination of dtypes.
#pragma once

#include <cstdint>

#include <demi/dtype.h>

#include "kernels/cuda/convert.cuh"

namespace demi::cuda {

// Arguments of kernels have no padding: what it holds by chance could look like a pointer to the
// host's memory, which the emulator refuses. So flags and dtypes take a whole word.

/// Elements of any dtype to be read as C (float, double or int64), converted as the op cast does.
struct AnyInput {
  const void* data = nullptr;
  std::int64_t dtype = 0;

  AnyInput() = default;
  __host__ __device__ AnyInput(const void* elements, DType type)
      : data(elements), dtype(static_cast<std::int64_t>(type)) {}

  template <class C>
  __device__ C get(std::int64_t i) const {
    switch (static_cast<DType>(dtype)) {
      case DType::kFloat16:
        return convert_element<C>(static_cast<const __half*>(data)[i]);
      case DType::kBFloat16:
        return convert_element<C>(static_cast<const __nv_bfloat16*>(data)[i]);
      case DType::kFloat64:
        return convert_element<C>(static_cast<const double*>(data)[i]);
      case DType::kInt32:
        return convert_element<C>(static_cast<const std::int32_t*>(data)[i]);
      case DType::kInt64:
        return convert_element<C>(static_cast<const std::int64_t*>(data)[i]);
      case DType::kUint8:
        return convert_element<C>(static_cast<const std::uint8_t*>(data)[i]);
      case DType::kBool:
        return convert_element<C>(static_cast<const bool*>(data)[i]);
      default:
        return convert_element<C>(static_cast<const float*>(data)[i]);
    }
  }
};

/// Elements of any dtype to be written: rounded once, integers wrapping around.
struct AnyOutput {
  void* data = nullptr;
  std::int64_t dtype = 0;

  AnyOutput() = default;
  __host__ __device__ AnyOutput(void* elements, DType type)
      : data(elements), dtype(static_cast<std::int64_t>(type)) {}

  template <class C>
  __device__ void set(std::int64_t i, C value) const {
    switch (static_cast<DType>(dtype)) {
      case DType::kFloat16:
        static_cast<__half*>(data)[i] = wrap_element<__half>(value);
        return;
      case DType::kBFloat16:
        static_cast<__nv_bfloat16*>(data)[i] = wrap_element<__nv_bfloat16>(value);
        return;
      case DType::kFloat64:
        static_cast<double*>(data)[i] = wrap_element<double>(value);
        return;
      case DType::kInt32:
        static_cast<std::int32_t*>(data)[i] = wrap_element<std::int32_t>(value);
        return;
      case DType::kInt64:
        static_cast<std::int64_t*>(data)[i] = wrap_element<std::int64_t>(value);
        return;
      case DType::kUint8:
        static_cast<std::uint8_t*>(data)[i] = wrap_element<std::uint8_t>(value);
        return;
      case DType::kBool:
        static_cast<bool*>(data)[i] = wrap_element<bool>(value);
        return;
      default:
        static_cast<float*>(data)[i] = wrap_element<float>(value);
    }
  }
};

}  // namespace demi::cuda
