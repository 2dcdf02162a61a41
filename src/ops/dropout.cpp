#include <demi/ops/dropout.h>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const DropoutAttributes& attributes) {
  return fmt::format("rate={}, seed={}", attributes.rate, attributes.seed);
}

SymbolicTensor dropout(const SymbolicTensor& x, double rate, std::uint64_t seed,
                       const SymbolicTensor& step) {
  return ir::emit("dropout", {x, step}, DropoutAttributes{rate, seed});
}

}  // namespace ops

namespace ir {
namespace {

std::vector<TensorType> infer_dropout(const InferContext& context) {
  const TensorType& x = context.inputs[0];
  const TensorType& step = context.inputs[1];
  const double rate = context.attributes.as<ops::DropoutAttributes>().rate;
  if (!(rate >= 0 && rate <= 1)) {
    internal::fail_argument("dropout",
                            fmt::format("expected a rate in [0, 1]. Received: {}.", rate));
  }
  if (!is_floating(x.dtype) || step != TensorType{{}, DType::kInt64}) {
    refuse("dropout", "a floating tensor and an int64 scalar", context.inputs);
  }
  return {x};
}

std::vector<SymbolicTensor> dropout_gradient(const GradientContext& context) {
  return {emit("dropout", {context.output_gradients[0], context.inputs[1]}, context.attributes),
          {}};
}

}  // namespace

void register_dropout_ops(OpRegistry& registry) {
  registry.add({.name = "dropout",
                .infer = infer_dropout,
                .autocast = AutocastRule::kPromote,
                .gradient = dropout_gradient,
                .reusable_inputs = {0}});
}

}  // namespace ir
}  // namespace demi
