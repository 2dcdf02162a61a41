#include <demi/layers/softmax.h>

#include <demi/ops/softmax.h>

#include "src/layers/layer_config.h"

namespace demi {

Softmax::Softmax(const SoftmaxOptions& options)
    : LayerOf({.class_name = "Softmax",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {}

Softmax Softmax::from_config(const Config& config) {
  SoftmaxOptions options;
  internal::read(config, "axis", options.axis);
  internal::read_common(config, options);
  return Softmax(options);
}

Config Softmax::get_config() const {
  return Layer::get_config().set("axis", options_.axis);
}

SymbolicTensor Softmax::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  return ops::softmax(x, options_.axis);
}

}  // namespace demi
