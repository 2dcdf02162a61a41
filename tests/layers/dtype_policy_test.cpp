#include <demi/dtype_policy.h>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

using demi::testing::message_of;

namespace demi {
namespace {

TEST(DTypePolicy, PairsComputeAndVariableDtypes) {
  EXPECT_EQ(DTypePolicy("float32").compute_dtype(), float32);
  EXPECT_EQ(DTypePolicy("mixed_float16").compute_dtype(), float16);
  EXPECT_EQ(DTypePolicy("mixed_float16").variable_dtype(), float32);
  EXPECT_EQ(DTypePolicy("mixed_bfloat16").compute_dtype(), bfloat16);
  EXPECT_EQ(DTypePolicy("mixed_bfloat16").variable_dtype(), float32);
  EXPECT_EQ(DTypePolicy("float16").variable_dtype(), float16);
  EXPECT_EQ(DTypePolicy("float64").compute_dtype(), float64);
  EXPECT_EQ(DTypePolicy(bfloat16), DTypePolicy("bfloat16"));
  EXPECT_EQ(DTypePolicy(), DTypePolicy("float32"));
}

TEST(DTypePolicy, SuggestsTheNearestName) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { DTypePolicy("mixed_flot16"); }),
            "[dtype_policy] expected one of 'float32', 'float64', 'float16', 'bfloat16', "
            "'mixed_float16', 'mixed_bfloat16'. Received: 'mixed_flot16'. Did you mean "
            "'mixed_float16'?");
  EXPECT_THROW(DTypePolicy{int32}, std::invalid_argument);
}

TEST(DTypePolicy, GlobalPolicyIsReplaced) {
  EXPECT_EQ(global_policy().name(), "float32");
  set_global_policy("mixed_bfloat16");
  EXPECT_EQ(global_policy().name(), "mixed_bfloat16");
  EXPECT_THROW(set_global_policy("half"), std::invalid_argument);
  EXPECT_EQ(global_policy().name(), "mixed_bfloat16");
  set_global_policy("float32");
}

}  // namespace
}  // namespace demi
