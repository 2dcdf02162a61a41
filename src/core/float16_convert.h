// Conversions of whole arrays between float and the 16-bit types: element for element the same bits
// as float16_inline.h, eight at a time where the processor can.
#pragma once

#include <cstdint>

#include "src/core/float16_inline.h"

namespace demi::internal {

/// Converts `count` elements. `from` and `to` must not overlap and need no alignment.
void convert(const Float16* from, float* to, std::int64_t count);
void convert(const float* from, Float16* to, std::int64_t count);
void convert(const BFloat16* from, float* to, std::int64_t count);
void convert(const float* from, BFloat16* to, std::int64_t count);

}  // namespace demi::internal
