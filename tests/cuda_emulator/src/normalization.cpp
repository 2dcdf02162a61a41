#include "tests/cuda_emulator/src/normalization.h"

#include <cmath>

namespace cuda_emulator {
namespace {

struct Statistics {
  std::vector<double> mean, variance;  ///< biased
};

/// Sums of the terms of each channel. Thousands of terms cost a double its last digits, and double
/// tensors are compared with exact sums.
template <class Term>
std::vector<double> channel_sums(const Normalization& shape, std::size_t count, Term&& term) {
  std::vector<long double> sums(shape.channels());
  for (std::size_t i = 0; i < count; ++i) sums[i % sums.size()] += term(i);
  return {sums.begin(), sums.end()};
}

Statistics measure(const Normalization& shape, const std::vector<double>& x) {
  const std::size_t channels = shape.channels();
  Statistics result;
  result.mean = channel_sums(shape, x.size(), [&](std::size_t i) { return x[i]; });
  for (double& mean : result.mean) mean /= shape.population();
  result.variance = channel_sums(shape, x.size(), [&](std::size_t i) {
    const double distance = x[i] - result.mean[i % channels];
    return distance * distance;
  });
  for (double& variance : result.variance) variance /= shape.population();
  return result;
}

std::vector<double> inverse_deviation(const Normalization& shape, std::vector<double> variance) {
  for (double& value : variance) value = 1 / std::sqrt(value + shape.epsilon);
  return variance;
}

void apply(const ForwardNormalization& work, const std::vector<double>& source,
           const std::vector<double>& mean, const std::vector<double>& inverse) {
  const Normalization& shape = work.shape;
  const std::vector<double> scales = shape.vector(work.scale), biases = shape.vector(work.bias);
  std::vector<double> result(source.size());
  if (work.factors.beta != 0) result = load_dense<double>(shape.second, work.y);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::size_t c = i % mean.size();
    const double value = scales[c] * (source[i] - mean[c]) * inverse[c] + biases[c];
    result[i] = work.factors.alpha * value + work.factors.beta * result[i];
  }
  store_dense(shape.second, result, work.y);
}

void write_results(const Normalization& shape, const Statistics& now,
                   const std::vector<double>& inverse, const NormalizationResults& results) {
  if (results.running_mean != nullptr) {
    // The first step of a training, with factor 1, finds nothing to average with.
    std::vector<double> mean(shape.channels()), variance(shape.channels());
    if (results.factor != 1) {
      mean = shape.vector(results.running_mean);
      variance = shape.vector(results.running_variance);
    }
    const double count = shape.population();
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      mean[c] = (1 - results.factor) * mean[c] + results.factor * now.mean[c];
      variance[c] =
          (1 - results.factor) * variance[c] + results.factor * unbiased * now.variance[c];
    }
    shape.write_vector(mean, results.running_mean);
    shape.write_vector(variance, results.running_variance);
  }
  if (results.saved_mean != nullptr) {
    shape.write_vector(now.mean, results.saved_mean);
    shape.write_vector(inverse, results.saved_inverse);
  }
}

void write_parameter(const BackwardNormalization& work, std::vector<double> values, void* address) {
  std::vector<double> old(values.size());
  if (work.parameters.beta != 0) old = work.shape.vector(address);
  for (std::size_t c = 0; c < values.size(); ++c) {
    values[c] = work.parameters.alpha * values[c] + work.parameters.beta * old[c];
  }
  work.shape.write_vector(values, address);
}

}  // namespace

void normalize(const ForwardNormalization& work, const NormalizationResults& results) {
  const std::vector<double> source = load_dense<double>(work.shape.tensor, work.x);
  const Statistics now = measure(work.shape, source);
  const std::vector<double> inverse = inverse_deviation(work.shape, now.variance);
  apply(work, source, now.mean, inverse);
  write_results(work.shape, now, inverse, results);
}

void normalize(const ForwardNormalization& work, const void* mean, const void* variance) {
  apply(work, load_dense<double>(work.shape.tensor, work.x), work.shape.vector(mean),
        inverse_deviation(work.shape, work.shape.vector(variance)));
}

void normalize_backward(const BackwardNormalization& work) {
  const Normalization& shape = work.shape;
  const std::vector<double> source = load_dense<double>(shape.tensor, work.x);
  const std::vector<double> gradient = load_dense<double>(shape.second, work.dy);
  Statistics now;
  if (work.saved_mean == nullptr) now = measure(shape, source);
  const std::vector<double> mean =
      work.saved_mean == nullptr ? now.mean : shape.vector(work.saved_mean);
  const std::vector<double> inverse = work.saved_mean == nullptr
                                          ? inverse_deviation(shape, now.variance)
                                          : shape.vector(work.saved_inverse);
  const std::size_t channels = shape.channels();
  const auto normalized = [&](std::size_t i) {
    return (source[i] - mean[i % channels]) * inverse[i % channels];
  };
  const std::vector<double> sum =
      channel_sums(shape, source.size(), [&](std::size_t i) { return gradient[i]; });
  const std::vector<double> sum_normalized = channel_sums(
      shape, source.size(), [&](std::size_t i) { return gradient[i] * normalized(i); });
  const std::vector<double> scales = shape.vector(work.scale);
  std::vector<double> result(source.size());
  if (work.data.beta != 0) result = load_dense<double>(shape.third, work.dx);
  for (std::size_t i = 0; i < source.size(); ++i) {
    const std::size_t c = i % channels;
    const double centred =
        gradient[i] - (sum[c] + normalized(i) * sum_normalized[c]) / shape.population();
    result[i] = work.data.alpha * scales[c] * inverse[c] * centred + work.data.beta * result[i];
  }
  store_dense(shape.third, result, work.dx);
  write_parameter(work, sum_normalized, work.dscale);
  write_parameter(work, sum, work.dbias);
}

}  // namespace cuda_emulator
