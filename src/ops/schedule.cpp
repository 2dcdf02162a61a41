#include <demi/ops/schedule.h>

#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {

std::string describe(const ScheduleAttributes& attributes) {
  return "rate=" + attributes.rate.get_config().to_json();
}

SymbolicTensor schedule(const SymbolicTensor& iterations, const LearningRate& rate) {
  return ir::emit("schedule", {iterations}, ScheduleAttributes{rate});
}

}  // namespace ops

namespace ir {
namespace {

std::vector<TensorType> infer_schedule(const InferContext& context) {
  if (context.inputs[0] != TensorType{{}, DType::kInt64}) {
    refuse("schedule", "an int64 scalar", context.inputs);
  }
  return {{{}, DType::kFloat32}};
}

}  // namespace

void register_schedule_ops(OpRegistry& registry) {
  registry.add({.name = "schedule", .infer = infer_schedule, .autocast = AutocastRule::kKeep});
}

}  // namespace ir
}  // namespace demi
