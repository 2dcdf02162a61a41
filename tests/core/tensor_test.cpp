#include <demi/tensor.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <demi/error.h>

#include "tests/support/message_of.h"

namespace demi {
namespace {

using demi::testing::message_of;
using std::invalid_argument;

template <class T>
std::vector<T> values_of(const Tensor& tensor) {
  const auto view = tensor.data<T>();
  return {view.begin(), view.end()};
}

TEST(Tensor, DefaultIsEmpty) {
  const Tensor tensor;
  EXPECT_EQ(tensor.shape(), Shape{0});
  EXPECT_EQ(tensor.dtype(), float32);
  EXPECT_EQ(tensor.bytes(), 0u);
  EXPECT_TRUE(tensor.data<float>().empty());
}

TEST(Tensor, StartsZeroFilledAndAligned) {
  for (const DType dtype : {float32, float16, int64, uint8}) {
    const Tensor tensor({3, 5}, dtype);
    EXPECT_EQ(tensor.bytes(), 15 * size_of(dtype));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64, 0u);
    for (int i = 0; i < 15; ++i) EXPECT_EQ(tensor.at(i), 0.0);
  }
}

TEST(Tensor, RefusesUnknownExtents) {
  EXPECT_EQ(message_of<invalid_argument>([] {
              Tensor({Shape::kUnknown, 2}, float32);
            }),
            "[shape] expected known extents. Received: [None, 2].");
}

TEST(Tensor, SaysHowMuchCouldNotBeAllocated) {
  try {
    Tensor({std::int64_t{1} << 50}, float32);
    FAIL() << "did not throw";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(),
                 "[tensor] could not allocate 4503599627370496 bytes for [1125899906842624] "
                 "float32.");
  }
  EXPECT_THROW(Tensor({std::int64_t{1} << 62}, float64), OutOfMemory);
}

TEST(Tensor, CopiesGivenValues) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Tensor tensor = Tensor::from(values, {2, 3});
  EXPECT_EQ(tensor.dtype(), float32);
  EXPECT_EQ(values_of<float>(tensor), values);
  EXPECT_EQ(Tensor::from(std::vector<std::int64_t>{7}, {1}).dtype(), int64);
  EXPECT_EQ(message_of<invalid_argument>([&] {
              static_cast<void>(Tensor::from(values, {2, 2}));
            }),
            "[tensor] expected 4 values for shape [2, 2]. Received: 6.");
}

TEST(Tensor, MovingLeavesAnEmptyTensor) {
  Tensor first = Tensor::from(std::vector<std::int32_t>{1, 2}, {2});
  Tensor second = std::move(first);
  EXPECT_EQ(first.shape(), Shape{0});  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(first.data<float>().empty());
  EXPECT_EQ(values_of<std::int32_t>(second), (std::vector<std::int32_t>{1, 2}));
  first = std::move(second);
  EXPECT_EQ(first.elements(), 2);
  EXPECT_EQ(second.elements(), 0);  // NOLINT(bugprone-use-after-move)
}

TEST(Tensor, RefusesTheWrongElementType) {
  const Tensor tensor({2}, float16);
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(tensor.data<float>()); }),
            "[tensor] expected data<T>() with the T that stores float16. Received: the one for "
            "float32.");
}

TEST(Tensor, FillsWithTheConvertedValue) {
  EXPECT_EQ(values_of<std::uint8_t>(Tensor::full({2}, 300.0, uint8)),
            (std::vector<std::uint8_t>{255, 255}));
  EXPECT_EQ(Tensor::full({1}, 0.1, float16).item(), 0.0999755859375);
  EXPECT_EQ(Tensor::full({1}, 0.1, float64).item(), 0.1);
  EXPECT_EQ(Tensor::full({1}, 2.0, boolean).item(), 1.0);
}

TEST(Tensor, ReadsSingleElementsAsDouble) {
  const Tensor tensor = Tensor::from(std::vector<std::int32_t>{5, -7}, {2});
  EXPECT_EQ(tensor.at(1), -7.0);
  EXPECT_EQ(Tensor::scalar(2.5f).item(), 2.5);
  EXPECT_EQ(Tensor::scalar(2.5f).shape(), Shape{});
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(tensor.item()); }),
            "[tensor] expected one element for item(). Received: shape [2].");
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(tensor.at(2)); }),
            "[tensor] expected an index below 2 for shape [2]. Received: 2.");
  EXPECT_THROW(static_cast<void>(tensor.at(-1)), std::invalid_argument);
}

TEST(Tensor, CloneIsIndependent) {
  Tensor original = Tensor::from(std::vector<float>{1, 2}, {2});
  const Tensor copy = original.clone();
  original.data<float>()[0] = 9;
  EXPECT_EQ(values_of<float>(copy), (std::vector<float>{1, 2}));
}

TEST(TensorTo, RoundsFloatsToNearestEven) {
  const Tensor x = Tensor::from(std::vector<float>{2049, 2051, 65519, 65520, -1e-8f}, {5});
  const Tensor half = x.to(float16);
  EXPECT_EQ(half.at(0), 2048);
  EXPECT_EQ(half.at(1), 2052);
  EXPECT_EQ(half.at(2), 65504);
  EXPECT_EQ(half.at(3), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::signbit(half.at(4)) && half.at(4) == 0);
}

TEST(TensorTo, RoundsDoublesToHalfOnce) {
  // Just above a float16 midpoint, by less than float can hold: rounding twice would give 1.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  const double below = 1.0 + 0x3p-11 - 0x1p-40;
  const Tensor x = Tensor::from(std::vector<double>{above, below, -above, 1e300}, {4});
  const Tensor half = x.to(float16);
  EXPECT_EQ(half.at(0), 1.0 + 0x1p-10);
  EXPECT_EQ(half.at(1), 1.0 + 0x1p-10);
  EXPECT_EQ(half.at(2), -1.0 - 0x1p-10);
  EXPECT_EQ(half.at(3), std::numeric_limits<double>::infinity());
  const std::int64_t big = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1;
  EXPECT_EQ(Tensor::scalar(big).to(bfloat16).item(), 0x1p62 + 0x1p55);
}

TEST(TensorTo, TruncatesAndSaturatesToIntegers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from(std::vector<float>{2.9f, -2.9f, nan, inf, -inf, 3e9f}, {6});
  EXPECT_EQ(values_of<std::int32_t>(x.to(int32)),
            (std::vector<std::int32_t>{2, -2, 0, std::numeric_limits<std::int32_t>::max(),
                                       std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max()}));
  EXPECT_EQ(values_of<std::uint8_t>(x.to(uint8)),
            (std::vector<std::uint8_t>{2, 0, 0, 255, 0, 255}));
  EXPECT_EQ(values_of<std::int64_t>(x.to(int64)),
            (std::vector<std::int64_t>{2, -2, 0, std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min(), 3000000000}));
  const Tensor wide = Tensor::from(std::vector<std::int64_t>{-1, 255, 256}, {3});
  EXPECT_EQ(values_of<std::uint8_t>(wide.to(uint8)), (std::vector<std::uint8_t>{0, 255, 255}));
}

TEST(TensorTo, BoolIsNonZero) {
  const Tensor x = Tensor::from(std::vector<float>{0.0f, -0.0f, 0.5f, -3.0f}, {4});
  const Tensor flags = x.to(boolean);
  EXPECT_EQ(flags.to_string(), "Tensor([4], bool, [false, false, true, true])");
  EXPECT_EQ(values_of<float>(flags.to(float32)), (std::vector<float>{0, 0, 1, 1}));
}

TEST(Tensor, ReshapesInPlace) {
  Tensor tensor = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const void* storage = tensor.raw();
  const Tensor reshaped = std::move(tensor).reshaped({3, 2});
  EXPECT_EQ(reshaped.raw(), storage);
  EXPECT_EQ(reshaped.shape(), (Shape{3, 2}));
  EXPECT_EQ(reshaped.at(5), 6);
  EXPECT_EQ(message_of<invalid_argument>([] {
              static_cast<void>(Tensor({2, 3}, float32).reshaped({4}));
            }),
            "[tensor] expected a shape of 6 elements, to reshape [2, 3]. Received: [4].");
}

TEST(Tensor, SlicesRows) {
  const Tensor tensor = Tensor::from(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor rows = tensor.slice(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_EQ(values_of<std::int32_t>(rows), (std::vector<std::int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(tensor.slice(3, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(tensor.slice(2, 2)); }),
            "[tensor] expected rows within [0, 3) of shape [3, 2]. Received: [2, 4).");
  EXPECT_THROW(static_cast<void>(tensor.slice(-1, 1)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(Tensor::scalar(1.0f).slice(0, 1)), std::invalid_argument);
}

TEST(Tensor, PrintsNestedLists) {
  const Tensor tensor = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(tensor.to_string(), "Tensor([2, 2], float32, [[1, 2], [3, 4]])");
  std::ostringstream out;
  out << Tensor::scalar(0.1f);
  EXPECT_EQ(out.str(), "Tensor([], float32, 0.1)");
  EXPECT_EQ(Tensor::full({2}, 0.1, float16).to_string(),
            "Tensor([2], float16, [0.099976, 0.099976])");
  EXPECT_EQ(Tensor({0, 3}, int32).to_string(), "Tensor([0, 3], int32, [])");
}

TEST(Tensor, PrintsTheEndsOfLongDimensions) {
  std::vector<std::int32_t> values(100);
  for (int i = 0; i < 100; ++i) values[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(Tensor::from(values, {100}).to_string(),
            "Tensor([100], int32, [0, 1, 2, …, 97, 98, 99])");
  EXPECT_EQ(
      Tensor::from(std::vector<std::int32_t>(values.begin(), values.begin() + 8), {8}).to_string(),
      "Tensor([8], int32, [0, 1, 2, 3, 4, 5, 6, 7])");
}

}  // namespace
}  // namespace demi
