#include "src/core/check.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

#include <demi/error.h>

namespace demi::internal {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"relu", "sigmoid", "softmax", "tanh"};

TEST(Check, PassesSilently) {
  EXPECT_NO_THROW(DEMI_CHECK(1 + 1 == 2, "arithmetic"));
}

TEST(Check, NamesMessageConditionAndPlace) {
  try {
    DEMI_CHECK(1 + 1 == 3, std::string("arithmetic is broken"));
    FAIL() << "did not throw";
  } catch (const InternalError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("arithmetic is broken"), std::string::npos) << text;
    EXPECT_NE(text.find("1 + 1 == 3"), std::string::npos) << text;
    EXPECT_NE(text.find("check_test.cpp:"), std::string::npos) << text;
  }
}

TEST(FailArgument, PutsTheOperationInBrackets) {
  try {
    fail_argument("conv2d", "expected a 4-D input. Received: [32, 784].");
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "[conv2d] expected a 4-D input. Received: [32, 784].");
  }
}

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("relu", "rleu"), 2u);
  EXPECT_EQ(edit_distance("softmax", "softmax"), 0u);
}

TEST(DidYouMean, SuggestsTheClosestName) {
  EXPECT_EQ(did_you_mean("rellu", kNames), " Did you mean 'relu'?");
  EXPECT_EQ(did_you_mean("sigmiod", kNames), " Did you mean 'sigmoid'?");
  EXPECT_EQ(did_you_mean("softmx", kNames), " Did you mean 'softmax'?");
}

TEST(DidYouMean, IsSilentWhenNothingIsClose) {
  EXPECT_EQ(did_you_mean("banana", kNames), "");
}

}  // namespace
}  // namespace demi::internal
