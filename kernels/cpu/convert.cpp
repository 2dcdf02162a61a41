#include "kernels/cpu/convert.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/core/convert_element.h"
#include "src/core/dispatch.h"
#include "src/core/float16_convert.h"

namespace demi::cpu {
namespace {

using internal::is_half_type;

constexpr std::int64_t kBlock = 512;

/// Integers of which float holds every value, so that converting through float rounds once.
template <class T>
inline constexpr bool is_byte = std::is_integral_v<T> && sizeof(T) == 1;

template <class From, class To>
void convert_array(const void* from_bytes, void* to_bytes, std::int64_t count) {
  const auto* from = static_cast<const From*>(from_bytes);
  auto* to = static_cast<To*>(to_bytes);
  if constexpr (std::is_same_v<From, To>) {
    if (from != to && count > 0) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(To));
    }
  } else if constexpr ((is_half_type<From> && std::is_same_v<To, float>) ||
                       (std::is_same_v<From, float> && is_half_type<To>)) {
    internal::convert(from, to, count);
  } else if constexpr (is_half_type<From> || (is_byte<From> && is_half_type<To>)) {
    float block[kBlock];
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, count - begin);
      convert_array<From, float>(from + begin, block, n);
      convert_array<float, To>(block, to + begin, n);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = internal::convert_element<To>(from[i]);
  }
}

template <class From, class To>
void wrap_array(const void* from_bytes, void* to_bytes, std::int64_t count) {
  const auto* from = static_cast<const From*>(from_bytes);
  auto* to = static_cast<To*>(to_bytes);
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

}  // namespace

ConvertFn converter(DType from, DType to) {
  return internal::dispatch(from, [&]<class From>() -> ConvertFn {
    return internal::dispatch(to, [&]<class To>() -> ConvertFn { return convert_array<From, To>; });
  });
}

ConvertFn wrapping_converter(DType from, DType to) {
  if (is_floating(from) || is_floating(to)) return converter(from, to);
  return internal::dispatch(from, [&]<class From>() -> ConvertFn {
    return internal::dispatch(to, [&]<class To>() -> ConvertFn {
      if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
        return wrap_array<From, To>;
      } else {
        return nullptr;
      }
    });
  });
}

}  // namespace demi::cpu
