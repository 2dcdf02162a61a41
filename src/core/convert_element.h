// One element from any storage type to any other: what Tensor::to and the cast operation mean.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <demi/dtype.h>

#include "src/core/float16_inline.h"

namespace demi::internal {

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

/// `value` as a float whose last bit is set if anything was lost. Rounding that float to 16 bits
/// then equals rounding `value` directly, where plain rounding twice could go the wrong way at a
/// midpoint.
template <class Wide>
[[nodiscard]] float round_to_odd(Wide value) {
  const float nearest = static_cast<float>(value);
  const long double error = static_cast<long double>(value) - static_cast<long double>(nearest);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  if (error == 0 || !std::isfinite(nearest) || (bits & 1u) != 0) return nearest;
  const bool nearest_is_larger = (error > 0) == std::signbit(nearest);
  return std::bit_cast<float>(nearest_is_larger ? bits - 1 : bits + 1);
}

/// `value` truncated toward zero and clamped to the range of Integer; a NaN gives 0.
template <class Integer, class Value>
[[nodiscard]] Integer saturate(Value value) {
  using Limits = std::numeric_limits<Integer>;
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(value)) return 0;
    // max() + 1 is a power of two, so exact even where max() itself is not.
    constexpr Value kEnd = Value{2} * static_cast<Value>(Limits::max() / 2 + 1);
    if (value >= kEnd) return Limits::max();
    if (value <= static_cast<Value>(Limits::min())) return Limits::min();
    return static_cast<Integer>(value);
  } else {
    const std::int64_t wide = value;
    if (wide > static_cast<std::int64_t>(Limits::max())) return Limits::max();
    if (wide < static_cast<std::int64_t>(Limits::min())) return Limits::min();
    return static_cast<Integer>(wide);
  }
}

/// Floating results are rounded to nearest, ties to even; integer results are truncated toward zero
/// and saturate (NaN gives 0); a bool is `value != 0`.
template <class To, class From>
[[nodiscard]] To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half_type<From>) {
    return convert_element<To>(to_float(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (is_half_type<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return from_float<To>(value);
    } else {
      return from_float<To>(round_to_odd(value));
    }
  } else if constexpr (std::is_integral_v<To>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace demi::internal
