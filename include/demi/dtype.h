// Element types of tensors and symbolic values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include <demi/float16.h>

namespace demi {

/// Element type. The storage of kBool is one byte holding 0 or 1.
enum class DType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,   ///< IEEE binary16: 5 exponent, 10 mantissa bits
  kBFloat16,  ///< 8 exponent, 7 mantissa bits
  kInt32,
  kInt64,
  kUint8,
  kBool,
};

inline constexpr DType float32 = DType::kFloat32;
inline constexpr DType float64 = DType::kFloat64;
inline constexpr DType float16 = DType::kFloat16;
inline constexpr DType bfloat16 = DType::kBFloat16;
inline constexpr DType int32 = DType::kInt32;
inline constexpr DType int64 = DType::kInt64;
inline constexpr DType uint8 = DType::kUint8;
inline constexpr DType boolean = DType::kBool;

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);

/// "float32", "float16", "bool", … (NumPy's and Keras' names).
[[nodiscard]] std::string_view to_string(DType dtype);

/// Inverse of `to_string`. Throws std::invalid_argument naming the valid names.
[[nodiscard]] DType parse_dtype(std::string_view name);

[[nodiscard]] constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

/// True for the two 16-bit floating types.
[[nodiscard]] constexpr bool is_half(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

/// The type in which arithmetic on `a` and `b` is done: bool < uint8 < int32 < int64 < float16 =
/// bfloat16 < float32 < float64; float16 with bfloat16 gives float32; an integer never widens a
/// floating type.
[[nodiscard]] DType promote(DType a, DType b);

/// The type in which a kernel accumulates values of `dtype`: float64 for float64, float32 for every
/// other floating type, int64 for integers.
[[nodiscard]] DType accumulation_dtype(DType dtype);

std::ostream& operator<<(std::ostream& out, DType dtype);

/// The DType whose C++ storage type is T. Defined for float, double, Float16, BFloat16,
/// std::int32_t, std::int64_t, std::uint8_t and bool.
template <class T>
inline constexpr DType dtype_of = T::no_demi_dtype;
template <>
inline constexpr DType dtype_of<float> = DType::kFloat32;
template <>
inline constexpr DType dtype_of<double> = DType::kFloat64;
template <>
inline constexpr DType dtype_of<Float16> = DType::kFloat16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::kBFloat16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::kInt32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::kInt64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::kUint8;
template <>
inline constexpr DType dtype_of<bool> = DType::kBool;

}  // namespace demi
