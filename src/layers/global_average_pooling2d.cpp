#include <demi/layers/global_average_pooling2d.h>

#include <demi/ops/reduction.h>

#include "src/layers/layer_config.h"
#include "src/layers/pooling2d.h"

namespace demi {

GlobalAveragePooling2D::GlobalAveragePooling2D(const GlobalAveragePooling2DOptions& options)
    : LayerOf({.class_name = "GlobalAveragePooling2D",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {}

GlobalAveragePooling2D GlobalAveragePooling2D::from_config(const Config& config) {
  GlobalAveragePooling2DOptions options;
  internal::require_channels_last(config);
  internal::read(config, "keepdims", options.keepdims);
  internal::read_common(config, options);
  return GlobalAveragePooling2D(options);
}

Config GlobalAveragePooling2D::get_config() const {
  return Layer::get_config().set("data_format", "channels_last").set("keepdims", options_.keepdims);
}

SymbolicTensor GlobalAveragePooling2D::call(const SymbolicTensor& x,
                                            const CallContext& /*context*/) {
  internal::check_images(x.shape(), where());
  return ops::mean(x, {1, 2}, options_.keepdims);
}

}  // namespace demi
