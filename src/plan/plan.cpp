#include "src/plan/plan.h"

#include <fmt/format.h>

#include "src/plan/memory_planner.h"

namespace demi {

const char* to_string(BufferKind kind) {
  switch (kind) {
    case BufferKind::kActivation:
      return "activation";
    case BufferKind::kTemporary:
      return "temporary";
    case BufferKind::kGradient:
      return "gradient";
    case BufferKind::kComputeCopy:
      return "compute copy";
  }
  return "";
}

}  // namespace demi

namespace demi::plan {
namespace {

std::size_t peak_of(const Plan& plan, BufferKind kind) {
  std::vector<Lifetime> lifetimes;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == kind) {
      lifetimes.push_back({buffer.bytes, buffer.first_step, buffer.last_step});
    }
  }
  return peak_live_bytes(lifetimes);
}

}  // namespace

MemorySummary Plan::memory() const {
  MemorySummary summary;
  summary.activations = peak_of(*this, BufferKind::kActivation);
  summary.temporaries = peak_of(*this, BufferKind::kTemporary);
  summary.gradients = peak_of(*this, BufferKind::kGradient);
  for (const auto& variable : variables) {
    if (variable->role == VariableRole::kWeightCopy) summary.kept_copies += variable->type.bytes();
  }
  summary.compute_copies = peak_of(*this, BufferKind::kComputeCopy) + summary.kept_copies;
  summary.workspace = workspace_bytes;
  summary.arena = arena_bytes();
  summary.constants = constant_bytes;
  std::vector<std::size_t> feed_bytes;
  for (const Feed& feed : feeds) feed_bytes.push_back(feed.type.bytes());
  summary.feeds = input_offsets(feed_bytes).back();
  return summary;
}

std::string to_string(const Plan& plan) {
  std::string text;
  for (const Step& step : plan.steps) {
    const ir::Node& node = plan.graph->node(step.node);
    std::string types;
    for (const ir::ValueId output : node.outputs) {
      types += (types.empty() ? "" : ", ") + plan.graph->type(output).to_string();
    }
    text += fmt::format("{} [{}] : {}  # {} {}\n", node.op->name, step.kernel->name(), types,
                        node.scope.layer, ir::to_string(node.scope.phase));
  }
  for (const Buffer& buffer : plan.buffers) {
    text += fmt::format("buffer %{} {} bytes at {} steps {}..{} {}\n", buffer.value(), buffer.bytes,
                        buffer.offset, buffer.first_step, buffer.last_step, to_string(buffer.kind));
  }
  text += fmt::format("arena {} bytes, workspace {} bytes, constants {} bytes\n", plan.buffer_bytes,
                      plan.workspace_bytes, plan.constant_bytes);
  return text;
}

}  // namespace demi::plan
