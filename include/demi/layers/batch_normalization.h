// BatchNormalization: normalises each channel with the statistics of the batch.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct BatchNormalizationOptions {
  int axis = -1;  ///< must be the last axis
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Initializer beta_initializer = "zeros";
  Initializer gamma_initializer = "ones";
  Initializer moving_mean_initializer = "zeros";
  Initializer moving_variance_initializer = "ones";
  std::optional<Regularizer> beta_regularizer = std::nullopt;
  std::optional<Regularizer> gamma_regularizer = std::nullopt;
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// gamma · (x - mean) / sqrt(variance + epsilon) + beta for each channel of x [n, ..., c].
///
/// In training mean and variance (biased) are those of the batch, and
///   moving = moving · momentum + batch · (1 - momentum)
/// unless the batch is empty or the step is skipped. Otherwise, and when the layer is frozen, they
/// are moving_mean and moving_variance. Variables, all [c] and at least float32: gamma, beta, and
/// the non-trainable moving_mean and moving_variance.
class BatchNormalization : public LayerOf<BatchNormalization> {
 public:
  /// Throws std::invalid_argument for a momentum outside [0, 1] or an epsilon that is negative.
  explicit BatchNormalization(const BatchNormalizationOptions& options = {});
  [[nodiscard]] static BatchNormalization from_config(const Config& config);

  void build(const Shape& input_shape) override;
  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  BatchNormalizationOptions options_;
  Variable gamma_;
  Variable beta_;
  Variable moving_mean_;
  Variable moving_variance_;
};

}  // namespace demi
