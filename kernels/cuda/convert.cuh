// One element from any storage type to any other on the device, as the op cast means it.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/element.cuh"

namespace demi::cuda {

template <class T>
inline constexpr bool is_half = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;

/// The type in which elements of T are summed and compared: int64 for integers and bool, double for
/// float64, else float.
template <class T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, std::int64_t, Compute<T>>;

/// A number as a double that rounds to 16 bits as the number itself does.
__host__ __device__ inline double narrowable(std::int64_t value) {
  // Of more than 53 bits, the low ones only matter by not being 0.
  constexpr std::int64_t kLow = 0xfff;
  if (value > -(std::int64_t{1} << 52) && value < (std::int64_t{1} << 52)) {
    return static_cast<double>(value);
  }
  return static_cast<double>((value & ~kLow) | ((value & kLow) != 0 ? kLow + 1 : 0));
}

// Constants, because device code may not call the functions of numeric_limits.
template <class T>
inline constexpr T kLargest = std::numeric_limits<T>::max();
template <class T>
inline constexpr T kLowest = std::numeric_limits<T>::lowest();
template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

/// Truncated toward zero and clamped to the range of Integer; a NaN gives 0.
template <class Integer, class Value>
__host__ __device__ inline Integer saturate(Value value) {
  constexpr Integer kMax = kLargest<Integer>;
  constexpr Integer kMin = kLowest<Integer>;
  if constexpr (std::is_floating_point_v<Value>) {
    // max + 1 is a power of two, so exact even where max itself is not.
    constexpr Value kEnd = Value{2} * static_cast<Value>(kMax / 2 + 1);
    if (value != value) return 0;
    if (value >= kEnd) return kMax;
    if (value <= static_cast<Value>(kMin)) return kMin;
    return static_cast<Integer>(value);
  } else {
    const std::int64_t wide = value;
    if (wide > static_cast<std::int64_t>(kMax)) return kMax;
    if (wide < static_cast<std::int64_t>(kMin)) return kMin;
    return static_cast<Integer>(wide);
  }
}

/// Floating results are rounded to nearest, ties to even; integer results are truncated toward zero
/// and saturate (NaN gives 0); a bool is `value != 0`.
template <class To, class From>
__host__ __device__ inline To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (is_half<From>) {
    return convert_element<To>(load(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (is_half<To>) {
    if constexpr (std::is_same_v<From, float>) {
      return store<To>(value);
    } else {
      double wide;
      if constexpr (std::is_integral_v<From>) {
        wide = narrowable(value);
      } else {
        wide = value;
      }
      if constexpr (std::is_same_v<To, __half>) {
        return __double2half(wide);
      } else {
        return __double2bfloat16(wide);
      }
    }
  } else if constexpr (std::is_integral_v<To>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// The same, but integers between each other modulo 2^bits, as arithmetic in the narrower type.
template <class To, class From>
__host__ __device__ inline To wrap_element(From value) {
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    return static_cast<To>(value);
  } else {
    return convert_element<To>(value);
  }
}

}  // namespace demi::cuda
