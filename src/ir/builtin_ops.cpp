#include "src/ir/builtin_ops.h"

#include <fmt/format.h>

#include "src/ir/op_registry.h"

namespace demi::ir {

std::string describe(const ConstantAttributes& attributes) {
  return fmt::format("value={}", attributes.value);
}

void register_builtin_ops(OpRegistry& registry) {
  registry.add({.name = "input", .autocast = AutocastRule::kKeep});
  registry.add({.name = "variable", .autocast = AutocastRule::kKeep});
  registry.add({.name = "constant",
                .infer = [](const InferContext& context) -> std::vector<TensorType> {
                  const auto& constant = context.attributes.as<ConstantAttributes>();
                  return {{constant.shape, constant.dtype}};
                },
                .autocast = AutocastRule::kKeep});
  registry.add({.name = "layer_output",
                .infer = [](const InferContext& context) -> std::vector<TensorType> {
                  return {context.inputs[0]};
                },
                .autocast = AutocastRule::kLowPrecision,
                .gradient = [](const GradientContext& context) -> std::vector<SymbolicTensor> {
                  return {context.output_gradients[0]};
                },
                .is_view = true});
}

}  // namespace demi::ir
