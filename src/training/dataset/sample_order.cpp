#include "src/training/dataset/sample_order.h"

#include <numeric>
#include <utility>

#include "src/core/philox.h"

namespace demi::internal {

std::vector<std::int64_t> shuffled_order(std::int64_t count, std::uint64_t seed,
                                         std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  PhiloxStream random(seed, epoch);
  for (std::size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[static_cast<std::size_t>(random.below(last))]);
  }
  return order;
}

}  // namespace demi::internal
