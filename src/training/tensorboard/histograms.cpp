#include "src/training/tensorboard/histograms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace demi::internal {
namespace {

constexpr std::size_t kBuckets = 30;

void set_limits(io::Histogram& histogram) {
  const double width = (histogram.max - histogram.min) / kBuckets;
  for (std::size_t i = 1; i < kBuckets; ++i) {
    histogram.limits.push_back(histogram.min + width * static_cast<double>(i));
  }
  histogram.limits.push_back(histogram.max);
  histogram.counts.assign(kBuckets, 0);
}

}  // namespace

io::Histogram value_histogram(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::kFloat64);
  io::Histogram histogram;
  for (const double value : wide.data<double>()) {
    if (!std::isfinite(value)) continue;
    const bool is_first = histogram.count == 0;
    histogram.min = is_first ? value : std::min(histogram.min, value);
    histogram.max = is_first ? value : std::max(histogram.max, value);
    histogram.count += 1;
    histogram.sum += value;
    histogram.sum_of_squares += value * value;
  }
  if (histogram.count == 0) return histogram;
  if (histogram.min == histogram.max) {
    histogram.limits = {histogram.max};
    histogram.counts = {histogram.count};
    return histogram;
  }
  set_limits(histogram);
  for (const double value : wide.data<double>()) {
    if (!std::isfinite(value)) continue;
    const auto bucket = std::lower_bound(histogram.limits.begin(), histogram.limits.end(), value);
    histogram.counts[static_cast<std::size_t>(bucket - histogram.limits.begin())] += 1;
  }
  return histogram;
}

io::Histogram exponent_histogram(const ValueRange& range) {
  io::Histogram histogram;
  const auto& counts = range.exponents;
  const auto is_some = [](std::int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_some);
  if (first == counts.end()) return histogram;
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_some).base();
  for (auto count = first; count != last; ++count) {
    const double exponent =
        ValueRange::kLowestExponent + static_cast<double>(count - counts.begin());
    const auto number = static_cast<double>(*count);
    histogram.limits.push_back(exponent + 0.5);
    histogram.counts.push_back(number);
    histogram.count += number;
    histogram.sum += number * exponent;
    histogram.sum_of_squares += number * exponent * exponent;
  }
  histogram.min = histogram.limits.front() - 0.5;
  histogram.max = histogram.limits.back() - 0.5;
  return histogram;
}

double norm_of(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::kFloat64);
  double squares = 0;
  for (const double value : wide.data<double>()) squares += value * value;
  return std::sqrt(squares);
}

}  // namespace demi::internal
