#include "src/training/precision/value_range.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>

namespace demi::internal {
namespace {

constexpr int kFloat16Overflow = 16;  ///< numbers of this exponent and above are infinite
constexpr double kFloat16Limit = 65520;
constexpr int kFloat16Flush = -25;  ///< numbers below this exponent are 0

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Where in `exponents` numbers of `exponent` are counted, or its nearest end.
std::size_t index_of(int exponent) {
  constexpr int kSize = ValueRange::kHighestExponent - ValueRange::kLowestExponent + 1;
  return static_cast<std::size_t>(std::clamp(exponent - ValueRange::kLowestExponent, 0, kSize));
}

}  // namespace

void ValueRange::add(const ValueRange& other) {
  zeros += other.zeros;
  infinities += other.infinities;
  nans += other.nans;
  max_abs = std::max(max_abs, other.max_abs);
  for (std::size_t i = 0; i < exponents.size(); ++i) exponents[i] += other.exponents[i];
}

std::int64_t ValueRange::numbers() const {
  return sum(exponents);
}

double ValueRange::overflow_share(int shift) const {
  const std::span<const std::int64_t> counts = exponents;
  std::int64_t over = sum(counts.subspan(index_of(kFloat16Overflow - shift))) + infinities + nans;
  // The histogram cannot tell the few between 65520 and 65536 from those below.
  if (over == 0 && std::ldexp(max_abs, shift) >= kFloat16Limit) over = 1;
  return share(over, all());
}

double ValueRange::flush_share(int shift) const {
  const std::span<const std::int64_t> counts = exponents;
  return share(sum(counts.first(index_of(kFloat16Flush - shift))), numbers());
}

ValueRange range_of(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat32) return range_of(tensor.to(DType::kFloat32));
  // By the bits: sign, 8 bits of exponent, 23 of fraction.
  std::array<std::int64_t, 256> counts{};
  std::uint32_t largest = 0;
  ValueRange range;
  for (const float value : tensor.data<float>()) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF;
    ++counts[bits >> 23];
    range.zeros += bits == 0 ? 1 : 0;
    range.infinities += bits == 0x7F800000 ? 1 : 0;
    if (bits < 0x7F800000) largest = std::max(largest, bits);
  }
  range.nans = counts[255] - range.infinities;
  range.max_abs = std::bit_cast<float>(largest);
  std::copy(counts.begin() + 1, counts.end() - 1, range.exponents.begin());
  range.exponents[0] += counts[0] - range.zeros;  // subnormals
  return range;
}

}  // namespace demi::internal
