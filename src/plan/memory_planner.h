// Offsets for buffers with known lifetimes.
#pragma once

#include <cstddef>
#include <vector>

namespace demi::plan {

/// Every buffer begins at a multiple of this many bytes.
inline constexpr std::size_t kAlignment = 64;

[[nodiscard]] constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// A buffer that is in use from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Assignment {
  std::vector<std::size_t> offsets;  ///< one per lifetime, multiples of kAlignment
  std::size_t total_bytes = 0;       ///< end of the last buffer
};

/// Buffers whose lifetimes overlap get disjoint ranges. Largest first, each into the smallest gap
/// that fits (lowest offset on ties): the greedy-by-size heuristic, deterministic.
[[nodiscard]] Assignment assign_offsets(const std::vector<Lifetime>& buffers);

/// The most bytes in use at any step: no assignment can be smaller.
[[nodiscard]] std::size_t peak_live_bytes(const std::vector<Lifetime>& buffers);

}  // namespace demi::plan
