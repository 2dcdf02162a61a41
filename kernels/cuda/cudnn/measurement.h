// Measurement: how a plan did, and which of several is to be used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace demi::cuda::cudnn {

struct Measurement {
  float milliseconds = 0;
  std::size_t workspace_bytes = 0;
};

/// The place of the one to use: of those at most 3 % slower than the fastest, which is less than
/// two measurements of the same plan differ, the one with the least workspace; the first of equals.
/// At least one is needed.
[[nodiscard]] inline std::size_t preferred(std::span<const Measurement> measurements) {
  float least = measurements.front().milliseconds;
  for (const Measurement& m : measurements) least = std::min(least, m.milliseconds);
  std::size_t best = measurements.size();
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    if (measurements[i].milliseconds > least * 1.03F) continue;
    if (best == measurements.size() ||
        measurements[i].workspace_bytes < measurements[best].workspace_bytes) {
      best = i;
    }
  }
  return best;
}

}  // namespace demi::cuda::cudnn
