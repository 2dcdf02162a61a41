#include <demi/layers/dropout.h>

#include <fmt/format.h>

#include <demi/ops/dropout.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"
#include "src/layers/layer_state.h"

namespace demi {

Dropout::Dropout(const DropoutOptions& options)
    : LayerOf({.class_name = "Dropout",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}),
      options_(options) {
  if (!(options.rate >= 0 && options.rate <= 1)) {
    internal::fail_argument(where(),
                            fmt::format("expected a rate in [0, 1]. Received: {}.", options.rate));
  }
  if (options.seed) state()->seed = *options.seed;
}

Dropout Dropout::from_config(const Config& config) {
  DropoutOptions options;
  internal::require_unset(config, "noise_shape");
  internal::read(config, "rate", options.rate);
  internal::read(config, "seed", options.seed);
  internal::read_common(config, options);
  return Dropout(options);
}

Config Dropout::get_config() const {
  return Layer::get_config()
      .set("rate", options_.rate)
      .set("seed", options_.seed ? Config(static_cast<std::int64_t>(*options_.seed)) : Config())
      .set("noise_shape", nullptr);
}

SymbolicTensor Dropout::call(const SymbolicTensor& x, const CallContext& context) {
  if (!context.training || options_.rate == 0) return x;
  return ops::dropout(x, options_.rate, random_key(), random_step());
}

}  // namespace demi
