#include "src/training/memory/batch_search.h"

#include <gtest/gtest.h>

namespace demi::internal {
namespace {

using Bytes = std::function<std::size_t(std::int64_t)>;

Bytes affine(std::size_t fixed, std::size_t per_sample) {
  return [=](std::int64_t batch) { return fixed + per_sample * static_cast<std::size_t>(batch); };
}

TEST(LargestBatch, LastThatFits) {
  for (const std::size_t limit : {1100u, 1101u, 1199u, 1200u, 5000u, 123456u}) {
    const Bytes bytes = affine(1000, 100);
    const std::int64_t batch = largest_batch(bytes, limit, 1 << 20);
    EXPECT_LE(bytes(batch), limit);
    EXPECT_GT(bytes(batch + 1), limit);
  }
}

TEST(LargestBatch, NothingOrEverything) {
  EXPECT_EQ(largest_batch(affine(1000, 100), 1099, 1 << 20), 0);
  EXPECT_EQ(largest_batch(affine(0, 1), std::size_t{1} << 40, 1000), 1000);
  EXPECT_EQ(largest_batch(affine(7, 0), 7, 1000), 1000);
}

TEST(LargestBatch, StandsUnevenGrowth) {
  // Constant for a while, then in steps, then steep, with a dip.
  const Bytes bytes = [](std::int64_t batch) -> std::size_t {
    const auto b = static_cast<std::size_t>(batch);
    return 5000 + (b / 64) * 640 + (b > 700 ? (b - 700) * 50 : 0) - (b % 7 == 0 ? 9 : 0);
  };
  for (std::size_t limit = 5000; limit < 40000; limit += 311) {
    const std::int64_t batch = largest_batch(bytes, limit, 1 << 20);
    EXPECT_LE(bytes(batch), limit);
    EXPECT_GT(bytes(batch + 1), limit);
  }
}

TEST(LargestBatch, AsksSeldomWhereGrowthIsLinear) {
  int calls = 0;
  const auto counted = [&](std::int64_t batch) {
    ++calls;
    return affine(123456, 789)(batch);
  };
  EXPECT_EQ(largest_batch(counted, 123456 + 789 * 4321, 1 << 20), 4321);
  EXPECT_LE(calls, 8);
}

}  // namespace
}  // namespace demi::internal
