#include <demi/layers/activation.h>

#include "src/layers/layer_config.h"

namespace demi {

Activation::Activation(ActivationSpec activation, const ActivationOptions& options)
    : LayerOf({.class_name = "Activation",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      activation_(std::move(activation)) {}

Activation Activation::from_config(const Config& config) {
  ActivationOptions options;
  internal::read_common(config, options);
  return Activation(ActivationSpec::from_config(config.at("activation")), options);
}

Config Activation::get_config() const {
  return Layer::get_config().set("activation", activation_.get_config());
}

SymbolicTensor Activation::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  return activation_(x);
}

}  // namespace demi
