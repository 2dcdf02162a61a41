#include "kernels/cpu/finite.h"

#include <algorithm>

namespace demi::cpu {
namespace {

/// Elements are compared as integers: without its sign bit, a number is not finite if it is at
/// least the pattern of infinity.
template <class Bits>
bool finite(const void* data, std::int64_t count, Bits infinity) {
  const Bits* bits = static_cast<const Bits*>(data);
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  Bits largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, static_cast<Bits>(bits[i] & kMagnitude));
  }
  return largest < infinity;
}

}  // namespace

bool all_finite(const void* data, DType dtype, std::int64_t count) {
  switch (dtype) {
    case DType::kFloat16:
      return finite<std::uint16_t>(data, count, 0x7c00);
    case DType::kBFloat16:
      return finite<std::uint16_t>(data, count, 0x7f80);
    case DType::kFloat64:
      return finite<std::uint64_t>(data, count, 0x7ff0000000000000);
    default:
      return finite<std::uint32_t>(data, count, 0x7f800000);
  }
}

}  // namespace demi::cpu
