#include <demi/layers/conv2d.h>

#include <fmt/format.h>

#include <demi/ops/binary.h>
#include <demi/ops/conv2d.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi {

using internal::to_array;

Conv2D::Conv2D(const Conv2DOptions& options)
    : LayerOf({.class_name = "Conv2D",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  const auto require = [&](const char* what, std::int64_t value) {
    if (value >= 1) return;
    internal::fail_argument(where(), fmt::format("expected {} >= 1. Received: {}.", what, value));
  };
  require("filters", options.filters);
  for (const std::int64_t size : to_array(options.kernel_size)) require("kernel_size", size);
  for (const std::int64_t stride : to_array(options.strides)) require("strides", stride);
  for (const std::int64_t rate : to_array(options.dilation_rate)) require("dilation_rate", rate);
  require("groups", options.groups);
  if (options.filters % options.groups != 0) {
    internal::fail_argument(
        where(),
        fmt::format("expected filters that groups divides. Received: {} filters, {} groups.",
                    options.filters, options.groups));
  }
  static_cast<void>(ops::parse_padding(options.padding, where().c_str()));
}

Conv2D Conv2D::from_config(const Config& config) {
  Conv2DOptions options;
  internal::require_channels_last(config);
  internal::require_unset(config, "kernel_constraint");
  internal::require_unset(config, "bias_constraint");
  internal::read(config, "filters", options.filters);
  internal::read(config, "kernel_size", options.kernel_size);
  internal::read(config, "strides", options.strides);
  internal::read(config, "padding", options.padding);
  internal::read(config, "dilation_rate", options.dilation_rate);
  internal::read(config, "groups", options.groups);
  internal::read(config, "activation", options.activation);
  internal::read(config, "use_bias", options.use_bias);
  internal::read(config, "kernel_initializer", options.kernel_initializer);
  internal::read(config, "bias_initializer", options.bias_initializer);
  internal::read(config, "kernel_regularizer", options.kernel_regularizer);
  internal::read(config, "bias_regularizer", options.bias_regularizer);
  internal::read(config, "activity_regularizer", options.activity_regularizer);
  internal::read_common(config, options);
  return Conv2D(options);
}

Config Conv2D::get_config() const {
  return Layer::get_config()
      .set("filters", options_.filters)
      .set("kernel_size", internal::to_config(options_.kernel_size))
      .set("strides", internal::to_config(options_.strides))
      .set("padding", options_.padding)
      .set("data_format", "channels_last")
      .set("dilation_rate", internal::to_config(options_.dilation_rate))
      .set("groups", options_.groups)
      .set("activation", options_.activation.get_config())
      .set("use_bias", options_.use_bias)
      .set("kernel_initializer", options_.kernel_initializer.get_config())
      .set("bias_initializer", options_.bias_initializer.get_config())
      .set("kernel_regularizer", internal::to_config(options_.kernel_regularizer))
      .set("bias_regularizer", internal::to_config(options_.bias_regularizer))
      .set("activity_regularizer", internal::to_config(options_.activity_regularizer));
}

void Conv2D::build(const Shape& input_shape) {
  if (input_shape.rank() != 4 || input_shape[-1] == Shape::kUnknown) {
    internal::fail_argument(where(), fmt::format("expected a 4-D input [N, H, W, C]. Received: {}.",
                                                 input_shape.to_string()));
  }
  const std::int64_t channels = input_shape[-1];
  if (channels % options_.groups != 0) {
    internal::fail_argument(
        where(),
        fmt::format("expected input channels that groups divides. Received: {} channels, {} "
                    "groups.",
                    channels, options_.groups));
  }
  const Size2D size = options_.kernel_size;
  kernel_ =
      add_weight({.name = "kernel",
                  .shape = {size.height, size.width, channels / options_.groups, options_.filters},
                  .initializer = options_.kernel_initializer,
                  .regularizer = options_.kernel_regularizer});
  if (!options_.use_bias) return;
  bias_ = add_weight({.name = "bias",
                      .shape = {options_.filters},
                      .initializer = options_.bias_initializer,
                      .regularizer = options_.bias_regularizer});
}

SymbolicTensor Conv2D::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  const std::int64_t channels = kernel_.shape()[2] * options_.groups;
  if (x.shape().rank() != 4 || x.shape()[-1] != channels) {
    internal::fail_argument(
        where(), fmt::format("expected a 4-D input [N, H, W, {}]. Received: {}.", channels,
                             x.shape().to_string()));
  }
  SymbolicTensor y = ops::conv2d(x, kernel_,
                                 {.strides = to_array(options_.strides),
                                  .padding = ops::parse_padding(options_.padding, where().c_str()),
                                  .dilation_rate = to_array(options_.dilation_rate),
                                  .groups = options_.groups});
  if (options_.use_bias) y = ops::add(y, bias_);
  y = options_.activation(y);
  if (options_.activity_regularizer) add_loss((*options_.activity_regularizer)(y));
  return y;
}

}  // namespace demi
