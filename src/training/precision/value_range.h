// ValueRange: which numbers a tensor holds, and what float16 would make of them.
#pragma once

#include <array>
#include <cstdint>

#include <demi/tensor.h>

namespace demi::internal {

/// Sums of one or several tensors. "Exponent" of a number that is neither 0 nor non-finite is
/// floor(log2(|x|)) (that of float32's smallest normal, -126, for smaller ones).
struct ValueRange {
  static constexpr int kLowestExponent = -126;
  static constexpr int kHighestExponent = 127;

  std::int64_t zeros = 0;
  std::int64_t infinities = 0;
  std::int64_t nans = 0;
  double max_abs = 0;  ///< of the finite ones
  /// exponents[e - kLowestExponent]: numbers of exponent e.
  std::array<std::int64_t, kHighestExponent - kLowestExponent + 1> exponents{};

  void add(const ValueRange& other);
  /// Those with an exponent.
  [[nodiscard]] std::int64_t numbers() const;
  [[nodiscard]] std::int64_t all() const { return numbers() + zeros + infinities + nans; }

  /// The share of all values that would be infinite in float16 if multiplied by 2^shift: those of
  /// at least 65520, which rounds to 2^16.
  [[nodiscard]] double overflow_share(int shift = 0) const;
  /// The share of the numbers that would become 0 in float16 if multiplied by 2^shift: those below
  /// 2^-25, half of the smallest subnormal.
  [[nodiscard]] double flush_share(int shift = 0) const;
};

/// Of a floating tensor.
[[nodiscard]] ValueRange range_of(const Tensor& tensor);

}  // namespace demi::internal
