// Dense: fully connected layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <demi/activations.h>
#include <demi/layer.h>

namespace demi {

struct DenseOptions {
  std::int64_t units = 0;  ///< required
  ActivationSpec activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = "glorot_uniform";
  Initializer bias_initializer = "zeros";
  std::optional<Regularizer> kernel_regularizer = std::nullopt;
  std::optional<Regularizer> bias_regularizer = std::nullopt;
  std::optional<Regularizer> activity_regularizer = std::nullopt;
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// activation(x · kernel + bias) along the last axis: x [n, ..., in] -> [n, ..., units]. Variables:
/// kernel [in, units] and bias [units].
class Dense : public LayerOf<Dense> {
 public:
  /// Throws std::invalid_argument unless units >= 1.
  explicit Dense(const DenseOptions& options);
  [[nodiscard]] static Dense from_config(const Config& config);

  void build(const Shape& input_shape) override;
  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  DenseOptions options_;
  Variable kernel_;
  Variable bias_;
};

}  // namespace demi
