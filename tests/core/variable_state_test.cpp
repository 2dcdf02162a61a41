#include "src/core/variable_state.h"

#include <gtest/gtest.h>

namespace demi {
namespace {

std::shared_ptr<VariableState> weight() {
  return make_variable_state("w", Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 2049}, {1, 3, 2}),
                             VariableRole::kWeight);
}

std::vector<double> values_of(const VariableState& state) {
  const Tensor value = state.read();
  std::vector<double> values;
  for (std::int64_t i = 0; i < value.shape().elements(); ++i) {
    values.push_back(value.at(i));
  }
  return values;
}

TEST(WeightCopies, HoldTheValueInAnotherDtypeAndOrder) {
  const auto state = weight();
  const auto plain = state->copy(float16, false);
  const auto transposed = state->copy(float16, true);
  EXPECT_EQ(plain->type, (TensorType{{1, 3, 2}, float16}));
  EXPECT_EQ(transposed->type, (TensorType{{2, 1, 3}, float16}));
  EXPECT_EQ(values_of(*plain), (std::vector<double>{1, 2, 3, 4, 5, 2048}));  // rounded to even
  EXPECT_EQ(values_of(*transposed), (std::vector<double>{1, 3, 5, 2, 4, 2048}));
  EXPECT_EQ(plain->role, VariableRole::kWeightCopy);
  EXPECT_EQ(state->copy(float16, false), plain);
}

TEST(WeightCopies, FollowWhatTheHostWrites) {
  const auto state = weight();
  const auto plain = state->copy(bfloat16, false);
  const auto transposed = state->copy(float32, true);
  state->write(Tensor::from(std::vector<double>{6, 5, 4, 3, 2, 1}, {1, 3, 2}));
  EXPECT_EQ(values_of(*plain), (std::vector<double>{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(values_of(*transposed), (std::vector<double>{6, 4, 2, 5, 3, 1}));
}

TEST(WeightCopies, AreGoneWithTheirLastReader) {
  const auto state = weight();
  auto copy = state->copy(float16, false);
  EXPECT_EQ(state->find_copy(float16, false), copy);
  EXPECT_EQ(state->find_copy(bfloat16, false), nullptr);
  copy.reset();
  EXPECT_EQ(state->find_copy(float16, false), nullptr);
}

}  // namespace
}  // namespace demi
