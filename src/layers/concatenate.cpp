#include <demi/layers/concatenate.h>

#include <fmt/format.h>

#include <demi/ops/movement.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi {

Concatenate::Concatenate(const ConcatenateOptions& options)
    : LayerOf({.class_name = "Concatenate",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {}

Concatenate Concatenate::from_config(const Config& config) {
  ConcatenateOptions options;
  internal::read(config, "axis", options.axis);
  internal::read_common(config, options);
  return Concatenate(options);
}

Config Concatenate::get_config() const {
  return Layer::get_config().set("axis", options_.axis);
}

std::vector<SymbolicTensor> Concatenate::call_many(const std::vector<SymbolicTensor>& inputs,
                                                   const CallContext& /*context*/) {
  if (inputs[0].shape().normalize_axis(options_.axis) == 0) {
    internal::fail_argument(
        where(),
        fmt::format("expected an axis other than the batch. Received: {}.", options_.axis));
  }
  return {ops::concatenate(inputs, options_.axis)};
}

}  // namespace demi
