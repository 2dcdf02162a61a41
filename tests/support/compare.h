// Random tensors, and what tests say about results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <demi/tensor.h>

namespace demi::testing {

/// Uniform values in [low, high), rounded to `dtype`; integers are uniform in [low, high).
[[nodiscard]] Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed,
                                   double low = -1, double high = 1);

/// The elements as doubles.
[[nodiscard]] std::vector<double> to_doubles(const Tensor& tensor);

/// |actual - expected| <= relative · max(|expected|, floor) element by element; NaN equals NaN, an
/// infinity only itself.
void expect_close(const Tensor& actual, const std::vector<double>& expected, double relative,
                  double floor = 1.0, const std::string& what = "");

/// Same shape, dtype and bits.
void expect_identical(const Tensor& actual, const Tensor& expected, const std::string& what = "");

/// Half a unit in the last place of 1.0: 2^-11 for float16, 2^-8 for bfloat16, 2^-24, 2^-53.
[[nodiscard]] double rounding_unit(DType dtype);

}  // namespace demi::testing
