// Element types on the device: which type stands for a dtype, in what it is computed, how it is
// loaded and stored.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <demi/dtype.h>

#include "kernels/cuda/device_compat.cuh"

namespace demi::cuda {

/// float64 is computed in double, every other floating type in float.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// An element as its compute type (integers and bool: as float).
template <class T>
__host__ __device__ inline Compute<T> load(T value) {
  return static_cast<Compute<T>>(value);
}
template <>
__host__ __device__ inline float load<__half>(__half value) {
  return __half2float(value);
}
template <>
__host__ __device__ inline float load<__nv_bfloat16>(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

/// A computed value as an element: rounded to nearest even to 16-bit types.
template <class T, class C>
__host__ __device__ inline T store(C value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Names a type without a value of it.
template <class T>
struct TypeTag {
  using type = T;
};

/// body(TypeTag<T>{}) with the device type of a floating dtype; for others the result is empty
/// (null) and `reason` says so.
template <class Body>
auto dispatch_floating(DType dtype, std::string& reason, Body&& body)
    -> decltype(body(TypeTag<float>{})) {
  switch (dtype) {
    case DType::kFloat16:
      return body(TypeTag<__half>{});
    case DType::kBFloat16:
      return body(TypeTag<__nv_bfloat16>{});
    case DType::kFloat32:
      return body(TypeTag<float>{});
    case DType::kFloat64:
      return body(TypeTag<double>{});
    default:
      reason = std::string("it computes floating dtypes, not ") + std::string(to_string(dtype));
      return {};
  }
}

/// The same for every dtype.
template <class Body>
auto dispatch_any(DType dtype, std::string& reason, Body&& body)
    -> decltype(body(TypeTag<float>{})) {
  switch (dtype) {
    case DType::kInt32:
      return body(TypeTag<std::int32_t>{});
    case DType::kInt64:
      return body(TypeTag<std::int64_t>{});
    case DType::kUint8:
      return body(TypeTag<std::uint8_t>{});
    case DType::kBool:
      return body(TypeTag<bool>{});
    default:
      return dispatch_floating(dtype, reason, std::forward<Body>(body));
  }
}

}  // namespace demi::cuda
