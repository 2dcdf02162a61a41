// From a floating DType to its storage type and the type its kernels compute in.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include <demi/dtype.h>

#include "kernels/kernel.h"

namespace demi::cpu {

/// float64 is computed in float64, everything else in float32.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls `make.operator()<T>()` with T the storage type of `dtype` and returns its kernel; null
/// with a reason for dtypes that are not floating.
template <class Make>
[[nodiscard]] std::unique_ptr<Kernel> dispatch_floating(DType dtype, std::string& reason,
                                                        Make&& make) {
  switch (dtype) {
    case DType::kFloat32:
      return make.template operator()<float>();
    case DType::kFloat64:
      return make.template operator()<double>();
    case DType::kFloat16:
      return make.template operator()<Float16>();
    case DType::kBFloat16:
      return make.template operator()<BFloat16>();
    default:
      reason = std::string(to_string(dtype)) + " is not a floating dtype";
      return nullptr;
  }
}

}  // namespace demi::cpu
