#include <demi/dataset.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/training/dataset/sample_order.h"
#include "src/training/dataset/validate.h"
#include "tests/support/message_of.h"

namespace demi {
namespace {

using testing::message_of;

Dataset numbered(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  std::vector<std::int32_t> y(static_cast<std::size_t>(count));
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(y.begin(), y.end(), 0);
  return {Tensor::from(x, {count, 1}), Tensor::from(y, {count})};
}

std::vector<std::int64_t> rows_of(const Dataset& data) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < data.size(); ++i) rows.push_back(data.row(i));
  return rows;
}

using Rows = std::vector<std::int64_t>;

TEST(Dataset, TakesSkipsAndSplitsWithoutCopying) {
  const Dataset data = numbered(10);
  EXPECT_EQ(rows_of(data.take(3)), (Rows{0, 1, 2}));
  EXPECT_EQ(rows_of(data.skip(8)), (Rows{8, 9}));
  EXPECT_EQ(rows_of(data.skip(2).take(2)), (Rows{2, 3}));
  EXPECT_EQ(data.take(99).size(), 10);
  EXPECT_TRUE(data.skip(99).empty());
  const auto [train, validation] = data.split(0.25);
  EXPECT_EQ(train.size(), 7);
  EXPECT_EQ(rows_of(validation), (Rows{7, 8, 9}));
  EXPECT_EQ(&train.input(), &data.input());
}

TEST(Dataset, SplitLeavesOutNothingForTinyData) {
  const auto [train, validation] = numbered(1).split(0.2);
  EXPECT_EQ(train.size(), 0);
  EXPECT_EQ(validation.size(), 1);
}

TEST(Dataset, ShufflePermutesBySeed) {
  const Dataset data = numbered(100);
  const Rows once = rows_of(data.shuffle(1));
  EXPECT_EQ(once, rows_of(data.shuffle(1)));
  EXPECT_NE(once, rows_of(data.shuffle(2)));
  EXPECT_NE(once, rows_of(data));
  EXPECT_EQ(std::set<std::int64_t>(once.begin(), once.end()).size(), 100u);
  // Of a part, only that part is shuffled; twice composes.
  const Rows part = rows_of(data.skip(90).shuffle(1).shuffle(3));
  EXPECT_EQ(std::set<std::int64_t>(part.begin(), part.end()),
            (std::set<std::int64_t>{90, 91, 92, 93, 94, 95, 96, 97, 98, 99}));
}

// The values are part of the contract: the same seed gives the same batches on every platform.
TEST(Dataset, ShuffledOrderIsFixedForever) {
  EXPECT_EQ(internal::shuffled_order(8, 42, 0), (Rows{2, 6, 4, 1, 0, 7, 5, 3}));
  EXPECT_EQ(internal::shuffled_order(8, 42, 1), (Rows{2, 6, 0, 5, 4, 7, 3, 1}));
  EXPECT_TRUE(internal::shuffled_order(0, 42, 0).empty());
}

TEST(Dataset, ShuffledOrderIsUniform) {
  std::vector<int> counts(24);
  for (std::uint64_t epoch = 0; epoch < 24000; ++epoch) {
    const Rows order = internal::shuffled_order(4, 7, epoch);
    int code = 0;  // rank of the permutation
    for (std::size_t i = 0; i < 4; ++i) {
      int smaller = 0;
      for (std::size_t j = i + 1; j < 4; ++j) smaller += order[j] < order[i] ? 1 : 0;
      code = code * static_cast<int>(4 - i) + smaller;
    }
    ++counts[static_cast<std::size_t>(code)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);  // 4.8 standard deviations
}

TEST(Dataset, RescalesOneInput) {
  const Dataset data = numbered(3).rescaled(0.5, -1);
  EXPECT_EQ(data.input_rescale(), (Rescale{0.5, -1}));
  EXPECT_EQ(data.take(1).input_rescale(), (Rescale{0.5, -1}));
  EXPECT_EQ(numbered(3).input_rescale(), Rescale());
}

TEST(Dataset, RefusesArraysOfDifferentLength) {
  EXPECT_EQ(message_of<std::invalid_argument>([] {
              Dataset(Tensor({4, 2}, float32), Tensor({3}, int32));
            }),
            "[dataset] expected 4 samples in every array, as in input 0. Received: 3 in target 0.");
  EXPECT_EQ(message_of<std::invalid_argument>([] {
              Dataset(tensors(Tensor({4, 2}, float32), Tensor({5, 2}, float32)), {});
            }),
            "[dataset] expected 4 samples in every array, as in input 0. Received: 5 in input 1.");
  EXPECT_EQ(message_of<std::invalid_argument>([] { Dataset(Tensor::scalar(1.0f)); }),
            "[dataset] expected arrays whose first dimension counts samples. Received: a scalar as "
            "input 0.");
  EXPECT_EQ(message_of<std::invalid_argument>([] { Dataset(std::vector<Tensor>{}, {}); }),
            "[dataset] expected at least one input. Received: 0.");
}

TEST(Dataset, RefusesBadArguments) {
  const Dataset data = numbered(4);
  EXPECT_THROW((void)data.split(0), std::invalid_argument);
  EXPECT_THROW((void)data.split(1), std::invalid_argument);
  EXPECT_THROW((void)data.take(-1), std::invalid_argument);
  EXPECT_THROW((void)data.rescaled(2, 0, 1), std::invalid_argument);
}

TEST(DatasetValidation, FindsNonFiniteValues) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  x[3] = std::numeric_limits<float>::quiet_NaN();
  const Dataset data(Tensor::from(x, {3, 2}), Tensor({3}, uint8));
  EXPECT_EQ(message_of<std::invalid_argument>([&] { internal::check_finite(data, "fit"); }),
            "[fit] expected finite values. Received: NaN in input 0, sample 1.");
  EXPECT_NO_THROW(internal::check_finite(data.take(1), "fit"));
  x[3] = std::numeric_limits<float>::infinity();
  const Dataset targets(Tensor({3}, uint8), Tensor::from(x, {3, 2}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] { internal::check_finite(targets, "fit"); }),
            "[fit] expected finite values. Received: infinity in target 0, sample 1.");
}

TEST(DatasetValidation, FindsLabelsOutOfRange) {
  const Dataset data(Tensor({3, 1}, float32),
                     Tensor::from(std::vector<std::int32_t>{0, 10, -1}, {3}));
  EXPECT_EQ(message_of<std::invalid_argument>([&] { internal::check_labels(data, 0, 10, "fit"); }),
            "[fit] expected labels in [0, 10), one for each class of the model's output. Received: "
            "10 in target 0, sample 1.");
  EXPECT_NO_THROW(internal::check_labels(data.take(2), 0, 11, "fit"));
  EXPECT_NE(message_of<std::invalid_argument>([&] {
              internal::check_labels(data, 0, 11, "fit");
            }).find("Received: -1 in target 0, sample 2."),
            std::string::npos);
  const Dataset floating(Tensor({3, 1}, float32), Tensor({3}, float32));
  EXPECT_EQ(
      message_of<std::invalid_argument>([&] { internal::check_labels(floating, 0, 10, "fit"); }),
      "[fit] expected integer labels in [0, 10). Received: float32 targets.");
}

TEST(DatasetValidation, RefusesEmptyData) {
  EXPECT_EQ(message_of<std::invalid_argument>(
                [] { internal::check_not_empty(numbered(3).take(0), "fit"); }),
            "[fit] expected at least one sample. Received: an empty data set.");
}

}  // namespace
}  // namespace demi
