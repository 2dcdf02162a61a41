// Looking for values that are not finite.
#pragma once

#include <cstdint>

#include <demi/dtype.h>

namespace demi::cpu {

/// Whether none of `count` floating-point values at `data` is an infinity or NaN.
[[nodiscard]] bool all_finite(const void* data, DType dtype, std::int64_t count);

}  // namespace demi::cpu
