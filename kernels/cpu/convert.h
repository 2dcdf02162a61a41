// Conversions of arrays between any two storage types, chosen at run time.
#pragma once

#include <cstdint>

#include <demi/dtype.h>

namespace demi::cpu {

/// Converts `count` elements. `to` may be `from` itself where both types have the same size.
using ConvertFn = void (*)(const void* from, void* to, std::int64_t count);

/// What the op "cast" means: floating results rounded to nearest even, integers truncated toward
/// zero and saturated (NaN gives 0), bool x != 0. Never null; equal dtypes copy.
[[nodiscard]] ConvertFn converter(DType from, DType to);

/// Integers and bool between each other modulo 2^bits, as arithmetic in the narrower type would
/// give; otherwise the same as `converter`.
[[nodiscard]] ConvertFn wrapping_converter(DType from, DType to);

}  // namespace demi::cpu
