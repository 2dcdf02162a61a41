// In which order an epoch visits its samples.
#pragma once

#include <cstdint>
#include <vector>

namespace demi::internal {

/// A permutation of [0, count) that depends on nothing but the arguments: Fisher-Yates on Philox,
/// so it is the same on every platform.
[[nodiscard]] std::vector<std::int64_t> shuffled_order(std::int64_t count, std::uint64_t seed,
                                                       std::uint64_t epoch);

}  // namespace demi::internal
