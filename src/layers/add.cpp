#include <demi/layers/add.h>

#include <fmt/format.h>

#include <demi/ops/binary.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"

namespace demi {

Add::Add(const AddOptions& options)
    : LayerOf({.class_name = "Add",
               .name = options.name,
               .dtype = options.dtype,
               .trainable = options.trainable}) {}

Add Add::from_config(const Config& config) {
  AddOptions options;
  internal::read_common(config, options);
  return Add(options);
}

std::vector<SymbolicTensor> Add::call_many(const std::vector<SymbolicTensor>& inputs,
                                           const CallContext& /*context*/) {
  if (inputs.size() < 2) {
    internal::fail_argument(
        where(), fmt::format("expected at least two inputs. Received: {}.", inputs.size()));
  }
  SymbolicTensor sum = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) sum = ops::add(sum, inputs[i]);
  return {sum};
}

}  // namespace demi
