#include <demi/layers/flatten.h>

#include <fmt/format.h>

#include <demi/ops/movement.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi {

Flatten::Flatten(const FlattenOptions& options)
    : LayerOf({.class_name = "Flatten",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}) {}

Flatten Flatten::from_config(const Config& config) {
  FlattenOptions options;
  internal::require_channels_last(config);
  internal::read_common(config, options);
  return Flatten(options);
}

Config Flatten::get_config() const {
  return Layer::get_config().set("data_format", "channels_last");
}

SymbolicTensor Flatten::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  if (x.shape().rank() < 1 || !x.shape().without_front().is_known()) {
    internal::fail_argument(
        where(), fmt::format("expected an input [N, ...]. Received: {}.", x.shape().to_string()));
  }
  return ops::reshape(x, {Shape::kUnknown, x.shape().without_front().elements()});
}

}  // namespace demi
