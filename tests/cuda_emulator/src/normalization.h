// Batch normalization per channel, as cuDNN defines it. Computed in double, rounded once.
#pragma once

#include <vector>

#include "tests/cuda_emulator/src/cudnn_legacy.h"

namespace cuda_emulator {

/// The tensors of a call that are like x, and the vectors of one value per channel.
struct Normalization {
  StridedTensor tensor, second, third;  ///< x and y; x, dy, and dx
  Format statistics;
  double epsilon;

  [[nodiscard]] std::size_t channels() const { return static_cast<std::size_t>(tensor.extents[1]); }
  [[nodiscard]] std::size_t vector_bytes() const { return channels() * size_of(statistics); }
  /// Elements per channel.
  [[nodiscard]] double population() const {
    return static_cast<double>(tensor.count()) / static_cast<double>(channels());
  }
  [[nodiscard]] std::vector<double> vector(const void* address) const {
    std::vector<double> values(channels());
    load(statistics, address, tensor.extents[1], 1, values.data());
    return values;
  }
  void write_vector(const std::vector<double>& values, void* address) const {
    store(statistics, values.data(), tensor.extents[1], 1, address);
  }
};

/// y = alpha · (scale · (x - mean) · deviation + bias) + beta · y.
struct ForwardNormalization {
  Normalization shape;
  Blend factors;
  const void *x, *scale, *bias;
  void* y;
};

/// Where training leaves the statistics; null for none.
struct NormalizationResults {
  double factor;  ///< of the batch in the running ones, whose variance is the unbiased one
  void *running_mean, *running_variance, *saved_mean, *saved_inverse;
};

/// With the statistics of the batch.
void normalize(const ForwardNormalization& work, const NormalizationResults& results);
/// With the statistics of former batches.
void normalize(const ForwardNormalization& work, const void* mean, const void* variance);

struct BackwardNormalization {
  Normalization shape;
  Blend data, parameters;
  const void *x, *dy, *scale, *saved_mean, *saved_inverse;  ///< the saved ones may be null
  void *dx, *dscale, *dbias;
};

void normalize_backward(const BackwardNormalization& work);

}  // namespace cuda_emulator
