// Cutting a kernel's elements into ranges for the thread pool.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/thread_pool.h"

namespace demi::cpu {

/// Elements of cheap elementwise work that make a chunk worth handing to a thread.
inline constexpr std::int64_t kElementwiseGrain = 16384;

/// Calls body(begin, end) on the thread pool for consecutive ranges of `grain` elements (the last
/// may be shorter) that cover [0, count). See Note [Deterministic partitioning].
template <class Body>
void for_ranges(ThreadPool& pool, std::int64_t count, std::int64_t grain, Body&& body) {
  const std::int64_t chunks = (count + grain - 1) / grain;
  if (chunks == 0) return;
  pool.parallel_for(chunks, [&](std::int64_t chunk, int) {
    const std::int64_t begin = chunk * grain;
    body(begin, std::min(begin + grain, count));
  });
}

}  // namespace demi::cpu
