#include <demi/layers/relu.h>

#include <fmt/format.h>

#include <demi/ops/binary.h>
#include <demi/ops/unary.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/layers/layer_config.h"

namespace demi {

ReLU::ReLU(const ReLUOptions& options)
    : LayerOf({.class_name = "ReLU",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  const auto require = [&](const char* what, double value) {
    if (value >= 0) return;
    internal::fail_argument(where(), fmt::format("expected {} >= 0. Received: {}.", what, value));
  };
  require("max_value", options.max_value.value_or(0));
  require("negative_slope", options.negative_slope);
  require("threshold", options.threshold);
}

ReLU ReLU::from_config(const Config& config) {
  ReLUOptions options;
  internal::read(config, "max_value", options.max_value);
  internal::read(config, "negative_slope", options.negative_slope);
  internal::read(config, "threshold", options.threshold);
  internal::read_common(config, options);
  return ReLU(options);
}

Config ReLU::get_config() const {
  return Layer::get_config()
      .set("max_value", options_.max_value ? Config(*options_.max_value) : Config())
      .set("negative_slope", options_.negative_slope)
      .set("threshold", options_.threshold);
}

SymbolicTensor ReLU::call(const SymbolicTensor& x, const CallContext& /*context*/) {
  const auto limited = [&](const SymbolicTensor& y) {
    return options_.max_value ? ops::minimum(y, *options_.max_value) : y;
  };
  if (options_.threshold == 0) {
    const SymbolicTensor y = limited(ops::relu(x));
    if (options_.negative_slope == 0) return y;
    return y - ops::relu(ops::negative(x)) * options_.negative_slope;
  }
  const SymbolicTensor threshold = ir::emit_constant(x, options_.threshold, x.dtype());
  const SymbolicTensor below = options_.negative_slope == 0
                                   ? ir::emit_constant(x, 0, x.dtype())
                                   : (x - threshold) * options_.negative_slope;
  return ops::where(ops::greater_equal(x, threshold), limited(x), below);
}

}  // namespace demi
