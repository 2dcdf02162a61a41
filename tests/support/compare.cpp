#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace demi::testing {

Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed, double low, double high) {
  Tensor values(shape, DType::kFloat64);
  std::span<double> data = values.data<double>();
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (double& value : data) {
    // splitmix64: small, well mixed, the same on every platform.
    state += 0x9E3779B97F4A7C15ull;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    value = low + (high - low) * (static_cast<double>(z >> 11) * 0x1.0p-53);
  }
  if (!is_floating(dtype)) {
    for (double& value : data) value = std::floor(value);
  }
  return values.to(dtype);
}

std::vector<double> to_doubles(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::kFloat64);
  const std::span<const double> data = wide.data<double>();
  return {data.begin(), data.end()};
}

void expect_close(const Tensor& actual, const std::vector<double>& expected, double relative,
                  double floor, const std::string& what) {
  const std::vector<double> values = to_doubles(actual);
  ASSERT_EQ(values.size(), expected.size()) << what;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool both_nan = std::isnan(values[i]) && std::isnan(expected[i]);
    const bool close =
        values[i] == expected[i] ||
        (std::isfinite(expected[i]) &&
         std::abs(values[i] - expected[i]) <= relative * std::max(std::abs(expected[i]), floor));
    if (both_nan || close) continue;
    if (++wrong <= 3) {
      ADD_FAILURE() << what << ": element " << i << " of " << actual.shape() << " is " << values[i]
                    << ", expected " << expected[i];
    }
  }
  EXPECT_EQ(wrong, 0u) << what << ": elements out of tolerance";
}

void expect_identical(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  if (actual.bytes() == 0) return;
  EXPECT_EQ(std::memcmp(actual.raw(), expected.raw(), actual.bytes()), 0) << what;
}

double rounding_unit(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1.0p-11;
    case DType::kBFloat16:
      return 0x1.0p-8;
    case DType::kFloat64:
      return 0x1.0p-53;
    default:
      return 0x1.0p-24;
  }
}

}  // namespace demi::testing
