#include <demi/dtype.h>

#include <array>

#include "src/core/check.h"
#include "src/core/dispatch.h"

namespace demi {
namespace {

struct Name {
  DType dtype;
  std::string_view name;
};

constexpr std::array<Name, 8> kNames = {{
    {DType::kFloat32, "float32"},
    {DType::kFloat64, "float64"},
    {DType::kFloat16, "float16"},
    {DType::kBFloat16, "bfloat16"},
    {DType::kInt32, "int32"},
    {DType::kInt64, "int64"},
    {DType::kUint8, "uint8"},
    {DType::kBool, "bool"},
}};

/// Position in the order bool < uint8 < int32 < int64 < halves < float32 < float64.
int promotion_rank(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 0;
    case DType::kUint8:
      return 1;
    case DType::kInt32:
      return 2;
    case DType::kInt64:
      return 3;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 4;
    case DType::kFloat32:
      return 5;
    case DType::kFloat64:
      return 6;
  }
  internal::check_failed("dtype is one of DType's", __FILE__, __LINE__, "invalid dtype");
}

}  // namespace

std::size_t size_of(DType dtype) {
  return internal::dispatch(dtype, []<class T> { return sizeof(T); });
}

std::string_view to_string(DType dtype) {
  for (const Name& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  internal::check_failed("dtype is one of DType's", __FILE__, __LINE__, "invalid dtype");
}

DType parse_dtype(std::string_view name) {
  std::array<std::string_view, kNames.size()> names;
  std::string valid;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i].name == name) return kNames[i].dtype;
    names[i] = kNames[i].name;
    valid.append(i == 0 ? "" : ", ").append(names[i]);
  }
  internal::fail_argument("dtype", "expected one of " + valid + ". Received: '" +
                                       std::string(name) + "'." +
                                       internal::did_you_mean(name, names));
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  const int rank_a = promotion_rank(a);
  const int rank_b = promotion_rank(b);
  if (rank_a == rank_b) return DType::kFloat32;  // float16 with bfloat16
  return rank_a > rank_b ? a : b;
}

DType accumulation_dtype(DType dtype) {
  if (dtype == DType::kFloat64) return DType::kFloat64;
  return is_floating(dtype) ? DType::kFloat32 : DType::kInt64;
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << to_string(dtype);
}

}  // namespace demi
