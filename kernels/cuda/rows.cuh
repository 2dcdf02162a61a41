// Rows worked on by one warp each: lane l has the elements l, l + 32, …; sums are taken lane by
// lane, then over the lanes, in an order that the length of the row alone gives.
#pragma once

#include <cstdint>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

namespace demi::cuda {

/// Calls body(row, lane) for each row that this warp has. All lanes of a warp have the same rows.
template <class Body>
__device__ inline void for_rows_of_warp(std::int64_t rows, Body body) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (std::int64_t row = thread_number() / 32; row < rows; row += thread_count() / 32) {
    body(row, lane);
  }
}

/// combine(…) of `initial` and value(i) for i in [0, count), for all lanes.
template <class Acc, class Value, class Combine>
__device__ inline Acc reduce_row(std::int64_t count, int lane, Acc initial, Value value,
                                 Combine combine) {
  Acc result = initial;
  for (std::int64_t i = lane; i < count; i += 32) result = combine(result, value(i));
  return reduce_lanes(result, 32, combine);
}

template <class Acc, class Value>
__device__ inline Acc sum_row(std::int64_t count, int lane, Value value) {
  return reduce_row(count, lane, Acc{0}, value, Sum());
}

/// The largest value that is not NaN; 0 if all others are -inf, so that it can be subtracted.
template <class Acc, class Value>
__device__ inline Acc max_row(std::int64_t count, int lane, Value value) {
  const Acc largest = reduce_row(count, lane, -kInfinity<Acc>, value, MaxOfNumbers());
  return largest == -kInfinity<Acc> ? Acc{0} : largest;
}

/// Blocks of kElementwiseThreads for one warp a row.
inline unsigned row_blocks(std::int64_t rows, const Context& context) {
  return elementwise_blocks(32 * rows, context);
}

}  // namespace demi::cuda
