// The statistics of a comparison: means, spreads, and how sure a difference is.
#pragma once

#include <vector>

namespace demi::benchmarks {

/// A mean and how far single values lie from it.
struct Sample {
  double mean = 0;
  double deviation = 0;  ///< sample standard deviation (n - 1); 0 for fewer than two values
};
[[nodiscard]] Sample summarize(const std::vector<double>& values);

/// The mean of paired differences with its 95 % confidence interval mean ± half_width, which is
/// infinite for fewer than two pairs.
struct PairedDifference {
  double mean = 0;
  double half_width = 0;
};
/// b[i] - a[i]; the vectors have the same size.
[[nodiscard]] PairedDifference paired_difference(const std::vector<double>& a,
                                                 const std::vector<double>& b);

/// Probability that |T| <= t for Student's t with `degrees` degrees of freedom. Abramowitz and
/// Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
[[nodiscard]] double student_t_within(double t, int degrees);

/// The t with student_t_within(t, degrees) = confidence.
[[nodiscard]] double student_t_quantile(double confidence, int degrees);

}  // namespace demi::benchmarks
