#include <demi/layers/average_pooling2d.h>

#include "src/layers/pooling2d.h"

namespace demi {

AveragePooling2D::AveragePooling2D(const AveragePooling2DOptions& options)
    : LayerOf({.class_name = "AveragePooling2D",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  internal::check_pooling(internal::pooling_options(options, where()), where());
}

AveragePooling2D AveragePooling2D::from_config(const Config& config) {
  return AveragePooling2D(internal::read_pooling<AveragePooling2DOptions>(config));
}

Config AveragePooling2D::get_config() const {
  return internal::write_pooling(Layer::get_config(), options_);
}

SymbolicTensor AveragePooling2D::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  internal::check_images(x.shape(), where());
  return ops::average_pool2d(x, internal::pooling_options(options_, where()));
}

}  // namespace demi
