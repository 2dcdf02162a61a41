// What MaxPooling2D and AveragePooling2D have in common. Options is MaxPooling2DOptions or
// AveragePooling2DOptions.
#pragma once

#include <string>

#include <demi/ops/pooling.h>

#include "src/layers/layer_config.h"

namespace demi::internal {

/// Throws std::invalid_argument for sizes or strides below 1 or an unknown padding.
void check_pooling(const ops::Pool2DOptions& options, const std::string& where);

/// Throws std::invalid_argument unless the shape is that of images.
void check_images(const Shape& shape, const std::string& where);

template <class Options>
[[nodiscard]] ops::Pool2DOptions pooling_options(const Options& options, const std::string& where) {
  return {.pool_size = to_array(options.pool_size),
          .strides = to_array(options.strides.value_or(options.pool_size)),
          .padding = ops::parse_padding(options.padding, where.c_str())};
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

}  // namespace demi::internal
