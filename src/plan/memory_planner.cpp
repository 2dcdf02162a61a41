#include "src/plan/memory_planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace demi::plan {
namespace {

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

Assignment assign_offsets(const std::vector<Lifetime>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return buffers[a].bytes > buffers[b].bytes;
  });
  Assignment result;
  result.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t buffer : order) {
    const std::size_t size = align_up(buffers[buffer].bytes);
    if (size == 0) continue;
    std::size_t best = 0, best_gap = std::numeric_limits<std::size_t>::max(), end = 0;
    bool found = false;
    for (const std::size_t other : placed) {
      if (!overlap(buffers[buffer], buffers[other])) continue;
      const std::size_t begin = result.offsets[other];
      if (begin >= end + size && begin - end < best_gap) {
        best = end;
        best_gap = begin - end;
        found = true;
      }
      end = std::max(end, begin + align_up(buffers[other].bytes));
    }
    const std::size_t offset = found ? best : end;
    result.offsets[buffer] = offset;
    result.total_bytes = std::max(result.total_bytes, offset + size);
    const auto place = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](std::size_t value, std::size_t other) { return value < result.offsets[other]; });
    placed.insert(place, buffer);
  }
  return result;
}

std::size_t peak_live_bytes(const std::vector<Lifetime>& buffers) {
  std::map<int, std::ptrdiff_t> changes;
  for (const Lifetime& buffer : buffers) {
    const auto bytes = static_cast<std::ptrdiff_t>(align_up(buffer.bytes));
    changes[buffer.first] += bytes;
    changes[buffer.last + 1] -= bytes;
  }
  std::ptrdiff_t live = 0, peak = 0;
  for (const auto& [step, change] : changes) peak = std::max(peak, live += change);
  return static_cast<std::size_t>(peak);
}

}  // namespace demi::plan
