#include "kernels/cpu/convert.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <demi/tensor.h>

namespace demi::cpu {
namespace {

constexpr DType kAll[] = {float32, float64, float16, bfloat16, int32, int64, uint8, boolean};

Tensor interesting_values() {
  std::vector<double> values = {0.0,   -0.0,   1.0,    -1.0,    0.1,    -2.7,     255.0,
                                256.0, 65504., 65520., -65521., 1e-8,   3.1e-5,   1e10,
                                -1e10, 1e300,  2049.,  4097.,   3e9,    -3e9,     9.3e18,
                                -1e19, 0.5,    NAN,    1 / 3.,  2 / 3., HUGE_VAL, -HUGE_VAL};
  for (int i = 0; i < 2000; ++i) values.push_back((i - 1000) * 0.37);
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, Shape{count});
}

TEST(Converter, EqualsTensorToForEveryPairOfTypes) {
  const Tensor source = interesting_values();
  for (const DType from : kAll) {
    const Tensor x = source.to(from);
    for (const DType to : kAll) {
      const Tensor expected = x.to(to);
      Tensor y(x.shape(), to);
      converter(from, to)(x.raw(), y.raw(), x.elements());
      EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), expected.bytes()), 0) << from << " " << to;
    }
  }
}

TEST(Converter, WorksInPlaceWhereSizesAgree) {
  const Tensor source = interesting_values();
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      if (size_of(from) != size_of(to)) continue;
      Tensor x = source.to(from);
      const Tensor expected = x.to(to);
      converter(from, to)(x.raw(), x.raw(), x.elements());
      EXPECT_EQ(std::memcmp(x.raw(), expected.raw(), expected.bytes()), 0) << from << " " << to;
    }
  }
}

TEST(WrappingConverter, KeepsTheLowBits) {
  const std::vector<std::int64_t> wide = {300, -1, (std::int64_t{1} << 32) + 7};
  std::uint8_t bytes[3];
  wrapping_converter(int64, uint8)(wide.data(), bytes, 3);
  EXPECT_EQ(bytes[0], 44);
  EXPECT_EQ(bytes[1], 255);
  EXPECT_EQ(bytes[2], 7);
  std::int32_t words[3];
  wrapping_converter(int64, int32)(wide.data(), words, 3);
  EXPECT_EQ(words[2], 7);
  bool flags[3];
  wrapping_converter(int64, boolean)(wide.data(), flags, 3);
  EXPECT_TRUE(flags[0] && flags[1] && flags[2]);
}

}  // namespace
}  // namespace demi::cpu
