#include <demi/ops/loss_scale.h>

#include <algorithm>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const LossScaleAttributes& attributes) {
  return fmt::format("growth_steps={}, dynamic={}", attributes.growth_steps, attributes.dynamic);
}

SymbolicTensor all_finite(const std::vector<SymbolicTensor>& values) {
  return ir::emit("all_finite", values);
}

LossScaleState loss_scale_update(const LossScaleState& state, const SymbolicTensor& finite,
                                 const LossScaleAttributes& attributes) {
  const auto outputs = ir::emit_all(
      "loss_scale_update",
      {state.scale, state.good_steps, state.skipped_steps, state.consecutive_skips, finite},
      attributes);
  return {outputs[0], outputs[1], outputs[2], outputs[3]};
}

}  // namespace ops

namespace ir {
namespace {

std::vector<TensorType> infer_all_finite(const InferContext& context) {
  const bool floating = std::all_of(context.inputs.begin(), context.inputs.end(),
                                    [](const TensorType& type) { return is_floating(type.dtype); });
  if (!floating) refuse("all_finite", "floating tensors", context.inputs);
  return {{{}, DType::kBool}};
}

std::vector<TensorType> infer_loss_scale_update(const InferContext& context) {
  const TensorType counter{{}, DType::kInt64};
  const std::vector<TensorType> expected = {
      {{}, DType::kFloat32}, counter, counter, counter, {{}, DType::kBool}};
  if (!std::equal(context.inputs.begin(), context.inputs.end(), expected.begin(), expected.end())) {
    refuse("loss_scale_update", "scalars: float32, three of int64 and bool", context.inputs);
  }
  const auto& attributes = context.attributes.as<ops::LossScaleAttributes>();
  if (attributes.growth_steps < 1) {
    internal::fail_argument(
        "loss_scale_update",
        fmt::format("expected growth_steps >= 1. Received: {}.", attributes.growth_steps));
  }
  return {expected.begin(), expected.begin() + 4};
}

std::vector<Overwrite> overwrites_state(const Node&) {
  return {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
}

}  // namespace

void register_loss_scale_ops(OpRegistry& registry) {
  registry.add({.name = "all_finite", .infer = infer_all_finite, .autocast = AutocastRule::kKeep});
  registry.add({.name = "loss_scale_update",
                .infer = infer_loss_scale_update,
                .autocast = AutocastRule::kKeep,
                .overwrites = overwrites_state});
}

}  // namespace ir
}  // namespace demi
