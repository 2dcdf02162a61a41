#include "src/training/tensorboard/step_trace.h"

#include <nlohmann/json.hpp>

#include "src/core/check.h"

namespace demi::internal {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;

Json types_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  Json types = Json::array();
  for (const ir::ValueId value : values) types.push_back(graph.type(value).to_string());
  return types;
}

Json name_event(const char* what, int track, const std::string& name) {
  return {
      {"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", track}, {"args", {{"name", name}}}};
}

Json kernel_event(const ir::Graph& graph, const plan::Step& step, const runtime::StepTime& time) {
  const ir::Node& node = graph.node(step.node);
  const std::string& layer = node.scope.layer;
  return {{"ph", "X"},
          {"name", layer.empty() ? node.op->name : layer + ": " + node.op->name},
          {"cat", ir::to_string(node.scope.phase)},
          {"pid", kProcess},
          {"tid", static_cast<int>(node.scope.phase)},
          {"ts", time.begin * 1e6},
          {"dur", (time.end - time.begin) * 1e6},
          {"args",
           {{"layer", layer},
            {"kernel", step.kernel->description()},
            {"inputs", types_of(graph, node.inputs)},
            {"outputs", types_of(graph, node.outputs)},
            {"workspace_bytes", step.kernel->workspace_bytes()}}}};
}

/// Live bytes by category while step `index` runs.
Json memory_event(const plan::Plan& plan, int index, double begin) {
  std::map<std::string, std::size_t> live;
  for (const plan::Buffer& buffer : plan.buffers) {
    std::size_t& bytes = live[to_string(buffer.kind)];
    if (buffer.first_step <= index && index <= buffer.last_step) bytes += buffer.bytes;
  }
  return {{"ph", "C"},
          {"name", "arena, bytes"},
          {"pid", kProcess},
          {"ts", begin * 1e6},
          {"args", live}};
}

}  // namespace

std::string step_trace(const plan::Plan& plan, const std::vector<runtime::StepTime>& times,
                       const std::string& device) {
  DEMI_CHECK(times.size() == plan.steps.size(), "a time for each step");
  Json events = Json::array();
  events.push_back(name_event("process_name", 0, "training step on " + device));
  for (const ir::Phase phase : {ir::Phase::kForward, ir::Phase::kBackward, ir::Phase::kUpdate}) {
    events.push_back(name_event("thread_name", static_cast<int>(phase), ir::to_string(phase)));
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    events.push_back(kernel_event(*plan.graph, plan.steps[i], times[i]));
    events.push_back(memory_event(plan, static_cast<int>(i), times[i].begin));
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace demi::internal
