// From a DType known at run time to the C++ type that stores it.
#pragma once

#include <cstdint>
#include <utility>

#include <demi/dtype.h>

#include "src/core/check.h"

namespace demi::internal {

/// Calls `body.operator()<T>()` with T the storage type of `dtype` and returns what it returns:
///   dispatch(dtype, [&]<class T> { fill<T>(…); });
template <class Body>
decltype(auto) dispatch(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body.template operator()<float>();
    case DType::kFloat64:
      return body.template operator()<double>();
    case DType::kFloat16:
      return body.template operator()<Float16>();
    case DType::kBFloat16:
      return body.template operator()<BFloat16>();
    case DType::kInt32:
      return body.template operator()<std::int32_t>();
    case DType::kInt64:
      return body.template operator()<std::int64_t>();
    case DType::kUint8:
      return body.template operator()<std::uint8_t>();
    case DType::kBool:
      return body.template operator()<bool>();
  }
  check_failed("dtype is one of DType's", __FILE__, __LINE__, "invalid dtype");
}

}  // namespace demi::internal
