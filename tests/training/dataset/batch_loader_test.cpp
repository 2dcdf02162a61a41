#include "src/training/dataset/batch_loader.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/training/dataset/sample_order.h"
#include "tests/support/message_of.h"

namespace demi::internal {
namespace {

/// Samples whose input is {i, -i} and whose label is 10 · i.
Dataset numbered(std::int64_t count) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < count; ++i) {
    x.push_back(static_cast<float>(i));
    x.push_back(static_cast<float>(-i));
    y.push_back(10 * i);
  }
  return {Tensor::from(x, {count, 2}), Tensor::from(y, {count})};
}

/// Two buffers, as a program has them, and what was read from them.
struct Reader {
  std::array<std::vector<float>, 2> x;
  std::array<std::vector<std::int64_t>, 2> y;

  explicit Reader(std::size_t batch_size) {
    x.fill(std::vector<float>(2 * batch_size));
    y.fill(std::vector<std::int64_t>(batch_size));
  }

  std::function<BatchBuffers(std::int64_t, int)> buffers() {
    return [this](std::int64_t, int buffer) {
      const auto b = static_cast<std::size_t>(buffer);
      return BatchBuffers{{x[b].data()}, {y[b].data()}};
    };
  }

  std::vector<std::vector<std::int64_t>> read_all(BatchLoader& loader) {
    std::vector<std::vector<std::int64_t>> batches;
    while (const auto batch = loader.next()) {
      const auto b = static_cast<std::size_t>(batch->buffer);
      // Long enough for the loader to overwrite this batch if it were free to do so.
      if (batches.size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      batches.emplace_back();
      for (std::size_t i = 0; i < static_cast<std::size_t>(batch->rows); ++i) {
        EXPECT_EQ(x[b][2 * i] * 10, static_cast<float>(y[b][i]));
        EXPECT_EQ(x[b][2 * i + 1], -x[b][2 * i]);
        batches.back().push_back(y[b][i] / 10);
      }
    }
    return batches;
  }
};

using Batches = std::vector<std::vector<std::int64_t>>;

TEST(BatchLoader, DeliversAllSamplesInOrder) {
  Reader reader(3);
  BatchLoader loader(numbered(8), {.batch_size = 3, .buffers = reader.buffers()});
  EXPECT_EQ(reader.read_all(loader), (Batches{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_FALSE(loader.next().has_value());
}

TEST(BatchLoader, FollowsTheGivenOrder) {
  Reader reader(2);
  BatchLoader loader(numbered(10).skip(5),
                     {.batch_size = 2, .order = {4, 0, 3, 1, 2}, .buffers = reader.buffers()});
  EXPECT_EQ(reader.read_all(loader), (Batches{{9, 5}, {8, 6}, {7}}));
}

TEST(BatchLoader, ResumesWithinAnEpoch) {
  const std::vector<std::int64_t> order = shuffled_order(50, 3, 2);
  Reader reader(4);
  BatchLoader whole(numbered(50), {.batch_size = 4, .order = order, .buffers = reader.buffers()});
  const Batches all = reader.read_all(whole);
  BatchLoader rest(numbered(50), {.batch_size = 4,
                                  .order = order,
                                  .first_batch = 5,
                                  .last_batch = 11,
                                  .buffers = reader.buffers()});
  EXPECT_EQ(reader.read_all(rest), Batches(all.begin() + 5, all.begin() + 11));
}

TEST(BatchLoader, HandlesNoSamples) {
  Reader reader(4);
  BatchLoader loader(numbered(0), {.batch_size = 4, .buffers = reader.buffers()});
  EXPECT_FALSE(loader.next().has_value());
}

TEST(BatchLoader, NeverHoldsMoreThanTwoBatches) {
  Reader reader(1);
  std::atomic<int> filled = 0;
  auto buffers = [&](std::int64_t rows, int buffer) {
    ++filled;
    return reader.buffers()(rows, buffer);
  };
  BatchLoader loader(numbered(20), {.batch_size = 1, .buffers = buffers});
  for (int taken = 1; taken <= 20; ++taken) {
    ASSERT_TRUE(loader.next().has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(filled, taken + 1);
  }
}

TEST(BatchLoader, PassesOnErrorsOfTheFillingThread) {
  Reader reader(1);
  auto buffers = [&](std::int64_t rows, int buffer) -> BatchBuffers {
    static std::atomic<int> calls = 0;
    if (++calls == 3) throw std::runtime_error("no memory for batch 2");
    return reader.buffers()(rows, buffer);
  };
  BatchLoader loader(numbered(10), {.batch_size = 1, .buffers = buffers});
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_EQ(testing::message_of<std::runtime_error>([&] { (void)loader.next(); }),
            "no memory for batch 2");
}

TEST(BatchLoader, CanBeDroppedAtAnyPoint) {
  Reader reader(1);
  for (int taken = 0; taken < 5; ++taken) {
    BatchLoader loader(numbered(100), {.batch_size = 1, .buffers = reader.buffers()});
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next().has_value());
  }
}

TEST(BatchLoader, LeavesTargetsAloneWhenNotAskedFor) {
  Reader reader(2);
  auto buffers = [&](std::int64_t, int buffer) {
    return BatchBuffers{{reader.x[static_cast<std::size_t>(buffer)].data()}, {}};
  };
  BatchLoader loader(numbered(2), {.batch_size = 2, .with_targets = false, .buffers = buffers});
  ASSERT_TRUE(loader.next().has_value());
  EXPECT_EQ(reader.x[0], (std::vector<float>{0, 0, 1, -1}));
}

}  // namespace
}  // namespace demi::internal
