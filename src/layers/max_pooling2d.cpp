#include <demi/layers/max_pooling2d.h>

#include "src/layers/pooling2d.h"

namespace demi {

MaxPooling2D::MaxPooling2D(const MaxPooling2DOptions& options)
    : LayerOf({.class_name = "MaxPooling2D",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  internal::check_pooling(internal::pooling_options(options, where()), where());
}

MaxPooling2D MaxPooling2D::from_config(const Config& config) {
  return MaxPooling2D(internal::read_pooling<MaxPooling2DOptions>(config));
}

Config MaxPooling2D::get_config() const {
  return internal::write_pooling(Layer::get_config(), options_);
}

SymbolicTensor MaxPooling2D::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  internal::check_images(x.shape(), where());
  return ops::max_pool2d(x, internal::pooling_options(options_, where())).first;
}

}  // namespace demi
