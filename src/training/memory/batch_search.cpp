#include "src/training/memory/batch_search.h"

#include <algorithm>

namespace demi::internal {
namespace {

struct Point {
  std::int64_t batch = 0;
  double bytes = 0;
};

/// Where a line through two points meets `limit`.
std::int64_t meeting_point(const Point& a, const Point& b, double limit) {
  const double slope = (b.bytes - a.bytes) / static_cast<double>(b.batch - a.batch);
  if (!(slope > 0)) return b.batch;
  const double batches = (limit - a.bytes) / slope;
  constexpr double kFar = 1e15;
  return a.batch + static_cast<std::int64_t>(std::clamp(batches, 0.0, kFar));
}

}  // namespace

std::int64_t largest_batch(const std::function<std::size_t(std::int64_t)>& bytes, std::size_t limit,
                           std::int64_t most) {
  const auto at = [&](std::int64_t batch) {
    return Point{batch, static_cast<double>(bytes(batch))};
  };
  const auto wanted = static_cast<double>(limit);
  Point fits = at(1);
  if (fits.bytes > wanted) return 0;
  // Doubling until something does not fit, but faster where the growth is known.
  Point previous = fits, exceeds = {};
  while (exceeds.batch == 0) {
    if (fits.batch == most) return most;
    const std::int64_t guess = fits.batch > 1 ? meeting_point(previous, fits, wanted) + 1 : 0;
    const Point next = at(std::min(std::max(2 * fits.batch, guess), most));
    previous = fits;
    (next.bytes <= wanted ? fits : exceeds) = next;
  }
  // Guesses alternate with halving, which bounds the number of steps where growth is not linear.
  for (bool halve = false; exceeds.batch - fits.batch > 1; halve = !halve) {
    const std::int64_t guess =
        halve ? (fits.batch + exceeds.batch) / 2 : meeting_point(fits, exceeds, wanted);
    const Point next = at(std::clamp(guess, fits.batch + 1, exceeds.batch - 1));
    if (next.bytes > wanted) {
      exceeds = next;
      continue;
    }
    fits = next;
    // A good guess is the answer; its neighbour says so.
    if (exceeds.batch - fits.batch > 1) {
      const Point neighbour = at(fits.batch + 1);
      (neighbour.bytes <= wanted ? fits : exceeds) = neighbour;
    }
  }
  return fits.batch;
}

}  // namespace demi::internal
