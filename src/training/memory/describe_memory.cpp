#include "src/training/memory/describe_memory.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "src/plan/memory_planner.h"
#include "src/runtime/process_memory.h"
#include "src/runtime/state_block.h"
#include "src/training/memory/limits.h"
#include "src/training/memory/policy_trial.h"
#include "src/training/memory/recompute_step.h"

namespace demi::internal {
namespace {

std::size_t bytes_of(const std::vector<Variable>& variables, VariableRole role) {
  std::size_t bytes = 0;
  for (const Variable& variable : variables) {
    if (variable.state()->role == role) bytes += variable.state()->type.bytes();
  }
  return bytes;
}

/// "conv2d" of "conv2d/kernel".
std::string layer_of(const std::string& variable) {
  const std::size_t end = variable.rfind('/');
  return end == std::string::npos ? "" : variable.substr(0, end);
}

/// Entries by layer path in the order in which they are first asked for.
class LayerTable {
 public:
  LayerBytes& at(const std::string& layer) {
    const auto [entry, added] = index_.try_emplace(layer, rows_.size());
    if (added) rows_.emplace_back().layer = layer;
    return rows_[entry->second];
  }
  [[nodiscard]] std::vector<LayerBytes> take() { return std::move(rows_); }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<LayerBytes> rows_;
};

std::size_t& field(LayerBytes& layer, BufferKind kind) {
  switch (kind) {
    case BufferKind::kActivation:
      return layer.activations;
    case BufferKind::kGradient:
      return layer.gradients;
    case BufferKind::kComputeCopy:
      return layer.compute_copies;
    case BufferKind::kTemporary:
      break;
  }
  return layer.temporaries;
}

std::size_t& field(MemoryMoment& moment, BufferKind kind) {
  switch (kind) {
    case BufferKind::kActivation:
      return moment.activations;
    case BufferKind::kGradient:
      return moment.gradients;
    case BufferKind::kComputeCopy:
      return moment.compute_copies;
    case BufferKind::kTemporary:
      break;
  }
  return moment.temporaries;
}

PlannedBuffer describe_buffer(const plan::Plan& plan, const plan::Buffer& buffer) {
  const ir::Graph& graph = *plan.graph;
  const ir::Node& writer = graph.producer(buffer.value());
  PlannedBuffer described;
  described.layer = writer.scope.layer;
  described.op = writer.op->name;
  described.type = graph.type(buffer.value()).to_string();
  described.kind = buffer.kind;
  described.bytes = plan::align_up(buffer.bytes);
  described.offset = buffer.offset;
  // Results of the graph stay beyond the last call.
  const int last = static_cast<int>(plan.steps.size()) - 1;
  described.first_call = static_cast<std::size_t>(std::min(buffer.first_step, last));
  described.last_call = static_cast<std::size_t>(std::min(buffer.last_step, last));
  for (std::size_t i = 1; i < buffer.values.size(); ++i) {
    const ir::Node& node = graph.producer(buffer.values[i]);
    described.aliases.push_back(fmt::format(
        "{}{}, {}", node.op->name, node.scope.layer.empty() ? "" : " of " + node.scope.layer,
        node.op->is_view ? "a view" : "in place"));
    described.aliased_bytes += plan::align_up(graph.type(buffer.values[i]).bytes());
  }
  return described;
}

std::vector<MemoryMoment> describe_timeline(const plan::Plan& plan,
                                            const std::vector<PlannedBuffer>& buffers) {
  std::vector<MemoryMoment> timeline;
  for (const plan::Step& step : plan.steps) {
    const ir::Node& node = plan.graph->node(step.node);
    MemoryMoment& moment = timeline.emplace_back();
    moment.layer = node.scope.layer;
    moment.phase = ir::to_string(node.scope.phase);
    moment.op = node.op->name;
    moment.workspace = plan::align_up(step.kernel->workspace_bytes());
    moment.recomputed = node.repeats >= 0;
  }
  if (timeline.empty()) return timeline;
  for (const PlannedBuffer& buffer : buffers) {
    for (std::size_t call = buffer.first_call; call <= buffer.last_call; ++call) {
      field(timeline[call], buffer.kind) += buffer.bytes;
    }
  }
  return timeline;
}

/// A slot is named "optimizer/variable/slot".
std::string layer_of_slot(const std::string& slot, const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    if (slot.find("/" + variable.name() + "/") != std::string::npos) {
      return layer_of(variable.name());
    }
  }
  return "";
}

std::vector<LayerBytes> describe_layers(const LayerGraph& model, const plan::Plan& plan,
                                        const Optimizer* optimizer,
                                        const std::vector<PlannedBuffer>& buffers) {
  LayerTable table;
  for (const auto& layer : model.layers) {
    for (const Variable& variable : layer->variables()) (void)table.at(layer_of(variable.name()));
  }
  const std::vector<Variable> variables = model.variables();
  for (const Variable& variable : variables) {
    table.at(layer_of(variable.name())).weights += variable.state()->type.bytes();
  }
  if (optimizer != nullptr) {
    for (const Variable& slot : optimizer->variables()) {
      if (slot.state()->role != VariableRole::kOptimizerSlot) continue;
      table.at(layer_of_slot(slot.name(), variables)).optimizer += slot.state()->type.bytes();
    }
  }
  for (const auto& variable : plan.variables) {
    if (variable->role != VariableRole::kWeightCopy) continue;
    table.at(layer_of(variable->name)).compute_copies += variable->type.bytes();
  }
  for (const PlannedBuffer& buffer : buffers) {
    field(table.at(buffer.layer), buffer.kind) += buffer.bytes;
  }
  for (const plan::Step& step : plan.steps) {
    std::size_t& largest = table.at(plan.graph->node(step.node).scope.layer).workspace;
    largest = std::max(largest, plan::align_up(step.kernel->workspace_bytes()));
  }
  return table.take();
}

MemoryOverhead overhead_on(const std::string& device) {
  if (device != "cpu") {
    return {.bytes = estimated_overhead(device),
            .measured = false,
            .source = "estimate for a CUDA context with kernels of cuDNN and cuBLASLt"};
  }
  const std::size_t resident = runtime::resident_bytes();
  return {.bytes = resident - std::min(resident, host_memory_in_use()),
          .measured = true,
          .source = "measured: resident memory of this process now, less what models hold"};
}

}  // namespace

PlannedBytes planned_bytes(const LayerGraph& model, const plan::Plan& plan,
                           const Optimizer* optimizer) {
  const plan::MemorySummary memory = plan.memory();
  PlannedBytes planned;
  planned.activations = memory.activations;
  planned.compute_copies = memory.compute_copies;
  planned.gradients = memory.gradients;
  planned.temporaries = memory.temporaries;
  planned.workspace = memory.workspace;
  planned.arena = memory.arena;
  planned.weights = bytes_of(model.variables(), VariableRole::kWeight);
  if (optimizer != nullptr) {
    planned.optimizer = bytes_of(optimizer->variables(), VariableRole::kOptimizerSlot);
  }
  planned.input_buffers = Program::kBuffers * memory.feeds;
  for (const auto& variable : plan.variables) {
    if (variable->role == VariableRole::kData) planned.data_sets += variable->type.bytes();
  }
  planned.constants = memory.constants;
  const bool counts =
      std::any_of(plan.variables.begin(), plan.variables.end(),
                  [](const auto& variable) { return variable->role == VariableRole::kStepState; });
  planned.step_state = counts ? runtime::StateBlock::kBytes : 0;
  planned.total = planned.weights + planned.optimizer + planned.arena + planned.input_buffers +
                  planned.data_sets + planned.constants + planned.step_state + memory.kept_copies;
  return planned;
}

MemoryPlan describe_memory(const LayerGraph& model, const StepSpec& spec, const plan::Plan& plan,
                           const Optimizer* optimizer, const std::string& device) {
  MemoryPlan described;
  described.device = device;
  described.policy = prevailing_policy(model).name();
  described.mode = spec.mode;
  described.batch_size = spec.inputs.at(0).type.shape[0];
  described.bytes = planned_bytes(model, plan, optimizer);
  described.overhead = overhead_on(device);
  for (const plan::Buffer& buffer : plan.buffers) {
    described.buffers.push_back(describe_buffer(plan, buffer));
  }
  described.timeline = describe_timeline(plan, described.buffers);
  described.recomputed = describe_recomputed(*plan.graph);
  described.layers = describe_layers(model, plan, optimizer, described.buffers);
  return described;
}

}  // namespace demi::internal
