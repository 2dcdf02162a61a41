// Conv2D: 2-D convolution layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <demi/activations.h>
#include <demi/layer.h>
#include <demi/layers/size2d.h>

namespace demi {

struct Conv2DOptions {
  std::int64_t filters = 0;  ///< required
  Size2D kernel_size = 0;    ///< required
  Size2D strides = 1;
  std::string padding = "valid";  ///< or "same"
  Size2D dilation_rate = 1;
  std::int64_t groups = 1;
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

/// activation(conv2d(x, kernel) + bias): x [n, h, w, ci] -> [n, oh, ow, filters]; formula and
/// output extents as ops::conv2d. Variables: kernel [kh, kw, ci / groups, filters] and bias
/// [filters].
class Conv2D : public LayerOf<Conv2D> {
 public:
  /// Throws std::invalid_argument for options that no input fits.
  explicit Conv2D(const Conv2DOptions& options);
  [[nodiscard]] static Conv2D from_config(const Config& config);

  void build(const Shape& input_shape) override;
  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  Conv2DOptions options_;
  Variable kernel_;
  Variable bias_;
};

}  // namespace demi
