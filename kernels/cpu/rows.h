// Reductions over one row of numbers, in an order that vectorises: lane l sums elements l, l + 8,
// …, and the lanes are added last.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/exponential.h"

namespace demi::cpu {

inline constexpr std::int64_t kRowLanes = 8;

/// combine(…) of initial and value(i) for i in [0, count).
template <class Acc, class Value, class Combine>
[[nodiscard]] Acc reduce_row(std::int64_t count, Acc initial, Value value, Combine combine) {
  Acc lanes[kRowLanes];
  std::fill_n(lanes, kRowLanes, initial);
  std::int64_t i = 0;
  for (; i + kRowLanes <= count; i += kRowLanes) {
    for (std::int64_t lane = 0; lane < kRowLanes; ++lane) {
      lanes[lane] = combine(lanes[lane], value(i + lane));
    }
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] = combine(lanes[lane], value(i));
  for (std::int64_t step = kRowLanes / 2; step > 0; step /= 2) {
    for (std::int64_t lane = 0; lane < step; ++lane) {
      lanes[lane] = combine(lanes[lane], lanes[lane + step]);
    }
  }
  return lanes[0];
}

/// Sum of value(i). Long rows are summed in blocks, so that the rounding error stays small.
template <class Acc, class Value>
[[nodiscard]] Acc sum_row(std::int64_t count, Value value) {
  constexpr std::int64_t kBlock = 512;
  Acc sum = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    sum += reduce_row(
        std::min(kBlock, count - first), Acc{0}, [&](std::int64_t i) { return value(first + i); },
        [](Acc a, Acc b) { return a + b; });
  }
  return sum;
}

/// The largest element that is not NaN; 0 if all others are -inf, so that it can be subtracted.
template <class Acc>
[[nodiscard]] Acc max_row(const Acc* x, std::int64_t count) {
  constexpr Acc kLowest = -std::numeric_limits<Acc>::infinity();
  const Acc largest = reduce_row(
      count, kLowest, [&](std::int64_t i) { return x[i]; },
      [](Acc a, Acc b) { return b > a ? b : a; });
  return largest == kLowest ? Acc{0} : largest;
}

/// Replaces x by exp(x - shift) and returns the sum.
template <class Acc>
Acc exponentiate_row(Acc* x, std::int64_t count, Acc shift) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = exponential(x[i] - shift);
  return sum_row<Acc>(count, [&](std::int64_t i) { return x[i]; });
}

}  // namespace demi::cpu
