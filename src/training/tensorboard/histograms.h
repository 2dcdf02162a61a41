// Histograms of tensors for TensorBoard.
#pragma once

#include <demi/tensor.h>

#include "src/io/event_writer.h"
#include "src/training/precision/value_range.h"

namespace demi::internal {

/// The finite elements of a floating tensor in 30 buckets of equal width between the smallest and
/// the largest.
[[nodiscard]] io::Histogram value_histogram(const Tensor& tensor);

/// How many numbers have which exponent, a bucket for each from the least to the largest there is.
[[nodiscard]] io::Histogram exponent_histogram(const ValueRange& range);

/// The square root of the sum of squares, in float64.
[[nodiscard]] double norm_of(const Tensor& tensor);

}  // namespace demi::internal
