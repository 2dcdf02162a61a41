#include <demi/layers/dense.h>

#include <fmt/format.h>

#include <demi/ops/binary.h>
#include <demi/ops/matmul.h>
#include <demi/ops/movement.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi {

Dense::Dense(const DenseOptions& options)
    : LayerOf({.class_name = "Dense",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  if (options.units >= 1) return;
  internal::fail_argument(where(),
                          fmt::format("expected units >= 1. Received: {}.", options.units));
}

Dense Dense::from_config(const Config& config) {
  DenseOptions options;
  internal::require_unset(config, "kernel_constraint");
  internal::require_unset(config, "bias_constraint");
  internal::require_unset(config, "quantization_config");
  internal::read(config, "units", options.units);
  internal::read(config, "activation", options.activation);
  internal::read(config, "use_bias", options.use_bias);
  internal::read(config, "kernel_initializer", options.kernel_initializer);
  internal::read(config, "bias_initializer", options.bias_initializer);
  internal::read(config, "kernel_regularizer", options.kernel_regularizer);
  internal::read(config, "bias_regularizer", options.bias_regularizer);
  internal::read(config, "activity_regularizer", options.activity_regularizer);
  internal::read_common(config, options);
  return Dense(options);
}

Config Dense::get_config() const {
  Config config = Layer::get_config()
                      .set("units", options_.units)
                      .set("activation", options_.activation.get_config())
                      .set("use_bias", options_.use_bias)
                      .set("kernel_initializer", options_.kernel_initializer.get_config())
                      .set("bias_initializer", options_.bias_initializer.get_config())
                      .set("kernel_regularizer", internal::to_config(options_.kernel_regularizer))
                      .set("bias_regularizer", internal::to_config(options_.bias_regularizer));
  // Keras writes it only where it is set.
  if (options_.activity_regularizer) {
    config.set("activity_regularizer", options_.activity_regularizer->get_config());
  }
  return config;
}

void Dense::build(const Shape& input_shape) {
  if (input_shape.rank() < 2 || input_shape[-1] == Shape::kUnknown) {
    internal::fail_argument(where(),
                            fmt::format("expected an input [N, ..., features]. Received: {}.",
                                        input_shape.to_string()));
  }
  kernel_ = add_weight({.name = "kernel",
                        .shape = {input_shape[-1], options_.units},
                        .initializer = options_.kernel_initializer,
                        .regularizer = options_.kernel_regularizer});
  if (!options_.use_bias) return;
  bias_ = add_weight({.name = "bias",
                      .shape = {options_.units},
                      .initializer = options_.bias_initializer,
                      .regularizer = options_.bias_regularizer});
}

SymbolicTensor Dense::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  const std::int64_t features = kernel_.shape()[0];
  const Shape shape = x.shape();
  if (shape.rank() < 2 || shape[-1] != features) {
    internal::fail_argument(where(), fmt::format("expected an input [N, ..., {}]. Received: {}.",
                                                 features, shape.to_string()));
  }
  SymbolicTensor y = shape.rank() == 2
                         ? ops::matmul(x, kernel_)
                         : ops::matmul(ops::reshape(x, {Shape::kUnknown, features}), kernel_);
  if (options_.use_bias) y = ops::add(y, bias_);
  if (shape.rank() > 2) {
    Shape result = shape;
    result.set(0, Shape::kUnknown);
    result.set(-1, options_.units);
    y = ops::reshape(y, result);
  }
  y = options_.activation(y);
  if (options_.activity_regularizer) add_loss((*options_.activity_regularizer)(y));
  return y;
}

}  // namespace demi
