#include <demi/ops/state.h>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const CycleAttributes& attributes) {
  return fmt::format("length={}", attributes.length);
}

std::string describe(const MovingAverageAttributes& attributes) {
  return fmt::format("momentum={}", attributes.momentum);
}

SymbolicTensor increment(const SymbolicTensor& counter, const SymbolicTensor& apply) {
  return ir::emit("increment", {counter, apply});
}

SymbolicTensor increment(const SymbolicTensor& counter) {
  return increment(counter, ir::emit_constant(counter, 1, DType::kBool));
}

Cycle cycle(const SymbolicTensor& position, const SymbolicTensor& apply, std::int64_t length) {
  const auto outputs = ir::emit_all("cycle", {position, apply}, CycleAttributes{length});
  return {outputs[0], outputs[1]};
}

SymbolicTensor moving_average(const SymbolicTensor& running, const SymbolicTensor& value,
                              double momentum) {
  return ir::emit("moving_average", {running, value, ir::emit_constant(running, 1, DType::kBool)},
                  MovingAverageAttributes{momentum});
}

SymbolicTensor assign(const SymbolicTensor& variable, const SymbolicTensor& value,
                      const SymbolicTensor& apply) {
  return ir::emit("assign", {variable, value, apply});
}

RunningSum accumulate(const RunningSum& sum, const SymbolicTensor& value,
                      const SymbolicTensor& weight) {
  const auto outputs =
      ir::emit_all("accumulate", {sum.total, sum.weight, sum.non_finite, value, weight});
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace ops

namespace ir {
namespace {

const TensorType kCounter{{}, DType::kInt64};
const TensorType kFlag{{}, DType::kBool};

std::vector<TensorType> infer_increment(const InferContext& context) {
  if (context.inputs[0] != kCounter || context.inputs[1] != kFlag) {
    refuse("increment", "an int64 scalar and a bool scalar", context.inputs);
  }
  return {kCounter};
}

std::vector<TensorType> infer_cycle(const InferContext& context) {
  const std::int64_t length = context.attributes.as<ops::CycleAttributes>().length;
  if (length < 1) {
    internal::fail_argument("cycle",
                            fmt::format("expected a length of at least 1. Received: {}.", length));
  }
  if (context.inputs[0] != kCounter || context.inputs[1] != kFlag) {
    refuse("cycle", "an int64 scalar and a bool scalar", context.inputs);
  }
  return {kCounter, kFlag};
}

std::vector<TensorType> infer_moving_average(const InferContext& context) {
  const double momentum = context.attributes.as<ops::MovingAverageAttributes>().momentum;
  if (!(momentum >= 0 && momentum <= 1)) {
    internal::fail_argument("moving_average",
                            fmt::format("expected a momentum in [0, 1]. Received: {}.", momentum));
  }
  const TensorType& running = context.inputs[0];
  const TensorType& value = context.inputs[1];
  if (!is_floating(running.dtype) || !is_floating(value.dtype) || running.shape != value.shape ||
      context.inputs[2] != kFlag) {
    refuse("moving_average", "two floating tensors of one shape and a bool scalar", context.inputs);
  }
  return {running};
}

std::vector<TensorType> infer_assign(const InferContext& context) {
  if (context.inputs[0] != context.inputs[1] || context.inputs[2] != kFlag) {
    refuse("assign", "two tensors of one shape and dtype and a bool scalar", context.inputs);
  }
  return {context.inputs[0]};
}

std::vector<TensorType> infer_accumulate(const InferContext& context) {
  const TensorType sum{{}, DType::kFloat64};
  const TensorType& value = context.inputs[3];
  const bool scalars = value.shape == Shape{} && context.inputs[4].shape == Shape{};
  if (context.inputs[0] != sum || context.inputs[1] != sum || context.inputs[2] != kCounter ||
      !scalars || !is_floating(value.dtype)) {
    refuse("accumulate", "scalars: two of float64, one of int64, a floating value and its weight",
           context.inputs);
  }
  return {sum, sum, kCounter};
}

/// The first `kCount` inputs are overwritten by the outputs of the same index.
template <int kCount>
std::vector<Overwrite> overwrites_first(const Node&) {
  std::vector<Overwrite> pairs;
  for (int i = 0; i < kCount; ++i) pairs.push_back({i, i});
  return pairs;
}

}  // namespace

void register_state_ops(OpRegistry& registry) {
  const auto add = [&](const char* name, auto infer, auto overwrites) {
    registry.add(
        {.name = name, .infer = infer, .autocast = AutocastRule::kKeep, .overwrites = overwrites});
  };
  add("increment", infer_increment, overwrites_first<1>);
  add("cycle", infer_cycle, overwrites_first<1>);
  add("moving_average", infer_moving_average, overwrites_first<1>);
  add("assign", infer_assign, overwrites_first<1>);
  add("accumulate", infer_accumulate, overwrites_first<3>);
}

}  // namespace ir
}  // namespace demi
