#include "benchmarks/compare_precision/statistics.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace demi::benchmarks {

Sample summarize(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  if (values.empty()) return {};
  Sample sample{.mean = std::accumulate(values.begin(), values.end(), 0.0) / count};
  if (values.size() < 2) return sample;
  double squares = 0;
  for (const double value : values) squares += (value - sample.mean) * (value - sample.mean);
  sample.deviation = std::sqrt(squares / (count - 1));
  return sample;
}

PairedDifference paired_difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(b.at(i) - a[i]);
  const Sample sample = summarize(differences);
  if (differences.size() < 2) return {sample.mean, std::numeric_limits<double>::infinity()};
  const auto count = static_cast<double>(differences.size());
  const double t = student_t_quantile(0.95, static_cast<int>(differences.size()) - 1);
  return {sample.mean, t * sample.deviation / std::sqrt(count)};
}

double student_t_within(double t, int degrees) {
  const double theta = std::atan(t / std::sqrt(degrees));
  const double cosine = std::cos(theta);
  const bool is_odd = degrees % 2 == 1;
  double term = is_odd ? cosine : 1;
  double sum = 0;
  for (int i = is_odd ? 1 : 0; i <= degrees - 2; i += 2) {
    sum += term;
    term *= cosine * cosine * (i + 1) / (i + 2);
  }
  if (!is_odd) return std::sin(theta) * sum;
  return 2 / std::numbers::pi * (theta + std::sin(theta) * sum);
}

double student_t_quantile(double confidence, int degrees) {
  double low = 0;
  double high = 1;
  while (student_t_within(high, degrees) < confidence) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_t_within(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

}  // namespace demi::benchmarks
