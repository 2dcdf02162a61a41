#include <demi/dtype.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace demi {
namespace {

const std::vector<DType> kAll = {float32, float64, float16, bfloat16, int32, int64, uint8, boolean};

TEST(DType, SizesAreThoseOfTheStorageTypes) {
  EXPECT_EQ(size_of(float32), 4u);
  EXPECT_EQ(size_of(float64), 8u);
  EXPECT_EQ(size_of(float16), 2u);
  EXPECT_EQ(size_of(bfloat16), 2u);
  EXPECT_EQ(size_of(int32), 4u);
  EXPECT_EQ(size_of(int64), 8u);
  EXPECT_EQ(size_of(uint8), 1u);
  EXPECT_EQ(size_of(boolean), 1u);
}

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : kAll) EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  EXPECT_EQ(to_string(bfloat16), "bfloat16");
  EXPECT_EQ(to_string(boolean), "bool");
  std::ostringstream out;
  out << float16;
  EXPECT_EQ(out.str(), "float16");
}

TEST(DType, UnknownNameListsTheValidOnesAndSuggests) {
  try {
    static_cast<void>(parse_dtype("flaot16"));
    FAIL() << "did not throw";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "[dtype] expected one of float32, float64, float16, bfloat16, int32, int64, uint8, "
        "bool. Received: 'flaot16'. Did you mean 'float16'?");
  }
}

TEST(DType, KindsAreTold) {
  EXPECT_TRUE(is_floating(float64));
  EXPECT_TRUE(is_floating(bfloat16));
  EXPECT_FALSE(is_floating(int64));
  EXPECT_FALSE(is_floating(boolean));
  EXPECT_TRUE(is_half(float16));
  EXPECT_TRUE(is_half(bfloat16));
  EXPECT_FALSE(is_half(float32));
}

TEST(Promote, FollowsTheOrder) {
  const std::vector<DType> order = {boolean, uint8, int32, int64, float16, float32, float64};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < order.size(); ++j) {
      EXPECT_EQ(promote(order[i], order[j]), order[std::max(i, j)]) << order[i] << order[j];
    }
  }
}

TEST(Promote, TreatsTheHalvesAsEquals) {
  EXPECT_EQ(promote(bfloat16, bfloat16), bfloat16);
  EXPECT_EQ(promote(float16, bfloat16), float32);
  EXPECT_EQ(promote(bfloat16, float16), float32);
  EXPECT_EQ(promote(int64, bfloat16), bfloat16);
  EXPECT_EQ(promote(float32, bfloat16), float32);
}

TEST(AccumulationDType, IsWideEnough) {
  EXPECT_EQ(accumulation_dtype(float16), float32);
  EXPECT_EQ(accumulation_dtype(bfloat16), float32);
  EXPECT_EQ(accumulation_dtype(float32), float32);
  EXPECT_EQ(accumulation_dtype(float64), float64);
  EXPECT_EQ(accumulation_dtype(uint8), int64);
  EXPECT_EQ(accumulation_dtype(boolean), int64);
}

}  // namespace
}  // namespace demi
