#include <demi/layers/batch_normalization.h>

#include <cmath>

#include <fmt/format.h>

#include <demi/ops/batch_norm.h>
#include <demi/ops/state.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/layers/layer_config.h"

namespace demi {

BatchNormalization::BatchNormalization(const BatchNormalizationOptions& options)
    : LayerOf({.class_name = "BatchNormalization",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    internal::fail_argument(
        where(), fmt::format("expected a momentum in [0, 1]. Received: {}.", options.momentum));
  }
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon))) {
    internal::fail_argument(where(),
                            fmt::format("expected epsilon >= 0. Received: {}.", options.epsilon));
  }
}

BatchNormalization BatchNormalization::from_config(const Config& config) {
  BatchNormalizationOptions options;
  for (const char* key : {"beta_constraint", "gamma_constraint", "synchronized", "renorm"}) {
    internal::require_unset(config, key);
  }
  internal::read(config, "axis", options.axis);
  internal::read(config, "momentum", options.momentum);
  internal::read(config, "epsilon", options.epsilon);
  internal::read(config, "center", options.center);
  internal::read(config, "scale", options.scale);
  internal::read(config, "beta_initializer", options.beta_initializer);
  internal::read(config, "gamma_initializer", options.gamma_initializer);
  internal::read(config, "moving_mean_initializer", options.moving_mean_initializer);
  internal::read(config, "moving_variance_initializer", options.moving_variance_initializer);
  internal::read(config, "beta_regularizer", options.beta_regularizer);
  internal::read(config, "gamma_regularizer", options.gamma_regularizer);
  internal::read_common(config, options);
  return BatchNormalization(options);
}

Config BatchNormalization::get_config() const {
  return Layer::get_config()
      .set("axis", options_.axis)
      .set("momentum", options_.momentum)
      .set("epsilon", options_.epsilon)
      .set("center", options_.center)
      .set("scale", options_.scale)
      .set("beta_initializer", options_.beta_initializer.get_config())
      .set("gamma_initializer", options_.gamma_initializer.get_config())
      .set("moving_mean_initializer", options_.moving_mean_initializer.get_config())
      .set("moving_variance_initializer", options_.moving_variance_initializer.get_config())
      .set("beta_regularizer", internal::to_config(options_.beta_regularizer))
      .set("gamma_regularizer", internal::to_config(options_.gamma_regularizer));
}

void BatchNormalization::build(const Shape& input_shape) {
  if (input_shape.rank() < 2 || input_shape[-1] == Shape::kUnknown) {
    internal::fail_argument(where(),
                            fmt::format("expected an input [N, ..., channels]. Received: {}.",
                                        input_shape.to_string()));
  }
  if (input_shape.normalize_axis(options_.axis) != input_shape.rank() - 1) {
    internal::fail_argument(
        where(), fmt::format("expected the last axis, -1. Received: {}.", options_.axis));
  }
  const DType dtype = promote(dtype_policy().variable_dtype(), float32);
  const auto add = [&](const char* name, const Initializer& initializer, bool trainable,
                       const std::optional<Regularizer>& regularizer) {
    return add_weight({.name = name,
                       .shape = {input_shape[-1]},
                       .initializer = initializer,
                       .trainable = trainable,
                       .autocast = false,
                       .regularizer = regularizer,
                       .dtype = dtype});
  };
  if (options_.scale) {
    gamma_ = add("gamma", options_.gamma_initializer, true, options_.gamma_regularizer);
  }
  if (options_.center) {
    beta_ = add("beta", options_.beta_initializer, true, options_.beta_regularizer);
  }
  moving_mean_ = add("moving_mean", options_.moving_mean_initializer, false, std::nullopt);
  moving_variance_ =
      add("moving_variance", options_.moving_variance_initializer, false, std::nullopt);
}

SymbolicTensor BatchNormalization::call(const SymbolicTensor& x, const CallContext& context) {
  const Shape channels = moving_mean_.shape();
  if (x.shape().rank() < 2 || x.shape()[-1] != channels[0]) {
    internal::fail_argument(where(), fmt::format("expected an input [N, ..., {}]. Received: {}.",
                                                 channels[0], x.shape().to_string()));
  }
  const auto read_or = [&](const Variable& variable, double value) -> SymbolicTensor {
    if (variable) return variable;
    return ir::emit_constant(x, value, moving_mean_.dtype(), channels);
  };
  const SymbolicTensor gamma = read_or(gamma_, 1);
  const SymbolicTensor beta = read_or(beta_, 0);
  if (!context.training || !trainable()) {
    return ops::batch_norm_inference(x, gamma, beta, moving_mean_, moving_variance_,
                                     options_.epsilon);
  }
  const ops::BatchNormResult result = ops::batch_norm_train(x, gamma, beta, options_.epsilon);
  const bool is_empty = x.shape().is_known() && x.shape().elements() == 0;
  if (!is_empty) {
    ops::moving_average(moving_mean_, result.mean, options_.momentum);
    ops::moving_average(moving_variance_, result.variance, options_.momentum);
  }
  return result.y;
}

}  // namespace demi
