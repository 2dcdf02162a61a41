// What MaxPooling2D and AveragePooling2D have in common. Options is MaxPooling2DOptions or
// AveragePooling2DOptions.
#pragma once

#include <string>

#include <fmt/format.h>

#include <demi/ops/pooling.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi::internal {

template <class Options>
void check_pooling(const Options& options, const std::string& where) {
  const Size2D strides = options.strides.value_or(options.pool_size);
  for (const Size2D& size : {options.pool_size, strides}) {
    if (size.height >= 1 && size.width >= 1) continue;
    fail_argument(where, fmt::format("expected pool_size and strides >= 1. Received: [{}, {}].",
                                     size.height, size.width));
  }
  static_cast<void>(ops::parse_padding(options.padding, where.c_str()));
}

template <class Options>
[[nodiscard]] Options read_pooling(const Config& config) {
  Options options;
  require_channels_last(config);
  read(config, "pool_size", options.pool_size);
  read(config, "strides", options.strides);
  read(config, "padding", options.padding);
  read_common(config, options);
  return options;
}

template <class Options>
[[nodiscard]] Config write_pooling(Config config, const Options& options) {
  return config.set("pool_size", to_config(options.pool_size))
      .set("padding", options.padding)
      .set("strides", to_config(options.strides.value_or(options.pool_size)))
      .set("data_format", "channels_last");
}

template <class Options>
[[nodiscard]] ops::Pool2DOptions pooling_options(const Options& options, const Shape& input_shape,
                                                 const std::string& where) {
  if (input_shape.rank() != 4) {
    fail_argument(where, fmt::format("expected a 4-D input [N, H, W, C]. Received: {}.",
                                     input_shape.to_string()));
  }
  return {.pool_size = to_array(options.pool_size),
          .strides = to_array(options.strides.value_or(options.pool_size)),
          .padding = ops::parse_padding(options.padding, where.c_str())};
}

}  // namespace demi::internal
