#include <demi/layers/reshape.h>

#include <algorithm>

#include <fmt/format.h>

#include <demi/ops/movement.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi {

Reshape::Reshape(const Shape& target_shape, const ReshapeOptions& options)
    : LayerOf({.class_name = "Reshape",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      target_shape_(target_shape) {
  if (std::count(target_shape.begin(), target_shape.end(), Shape::kUnknown) > 1) {
    internal::fail_argument(
        where(), fmt::format("expected a target_shape with at most one -1. Received: {}.",
                             target_shape.to_string()));
  }
}

Reshape Reshape::from_config(const Config& config) {
  ReshapeOptions options;
  internal::read_common(config, options);
  return Reshape(internal::from_config<Shape>(config.at("target_shape")), options);
}

Config Reshape::get_config() const {
  return Layer::get_config().set("target_shape", Config::integers(target_shape_));
}

SymbolicTensor Reshape::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  const auto refuse = [&] {
    internal::fail_argument(
        where(),
        fmt::format("expected an input whose samples have the elements of {}. Received: {}.",
                    target_shape_.to_string(), x.shape().to_string()));
  };
  if (x.shape().rank() < 1 || !x.shape().without_front().is_known()) refuse();
  const std::int64_t elements = x.shape().without_front().elements();
  std::int64_t known = 1;
  for (const std::int64_t extent : target_shape_) {
    if (extent != Shape::kUnknown) known *= extent;
  }
  Shape target = target_shape_.with_front(Shape::kUnknown);
  for (int axis = 1; axis < target.rank(); ++axis) {
    if (target[axis] != Shape::kUnknown) continue;
    if (known == 0 || elements % known != 0) refuse();
    target.set(axis, elements / known);
  }
  if (target.without_front().elements() != elements) refuse();
  return ops::reshape(x, target);
}

}  // namespace demi
