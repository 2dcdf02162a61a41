#include <fmt/format.h>

#include <demi/error.h>

#include "src/ir/graph.h"

namespace demi::ir {
namespace {

[[noreturn]] void broken(const Graph& graph, const Node& node, const std::string& what) {
  throw InternalError(fmt::format("[verify] {} (layer '{}', {}): {}\n{}", node.op->name,
                                  node.scope.layer, to_string(node.scope.phase), what,
                                  to_string(graph)));
}

void check_types(const Graph& graph, const Node& node) {
  std::vector<TensorType> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(graph.type(id));
  const std::vector<TensorType> inferred = node.op->infer({inputs, node.attributes});
  if (inferred.size() != node.outputs.size()) broken(graph, node, "wrong number of outputs");
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    const TensorType& actual = graph.type(node.outputs[i]);
    const bool dtype_fits = actual.dtype == inferred[i].dtype ||
                            (i == 0 && can_store(*node.op, inferred[i].dtype, actual.dtype));
    if (actual.shape != inferred[i].shape || !dtype_fits) {
      broken(graph, node,
             fmt::format("output {} is {}, infer says {}", i, actual.to_string(),
                         inferred[i].to_string()));
    }
  }
}

}  // namespace

void verify(const Graph& graph) {
  enum class State : char { kAbsent, kLive, kOverwritten };
  std::vector<State> state(graph.value_count(), State::kAbsent);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const ValueId input : node.inputs) {
      const State s = state[static_cast<std::size_t>(input)];
      if (s == State::kAbsent) broken(graph, node, fmt::format("%{} is not produced yet", input));
      if (s == State::kOverwritten) broken(graph, node, fmt::format("%{} is overwritten", input));
    }
    if (node.op->infer != nullptr) check_types(graph, node);
    if (node.op->overwrites != nullptr) {
      for (const Overwrite& pair : node.op->overwrites(node)) {
        state[static_cast<std::size_t>(node.inputs[static_cast<std::size_t>(pair.input)])] =
            State::kOverwritten;
      }
    }
    for (const ValueId output : node.outputs) {
      state[static_cast<std::size_t>(output)] = State::kLive;
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (state[static_cast<std::size_t>(output.value)] != State::kLive) {
      throw InternalError(fmt::format("[verify] graph output '{}' is not live at the end\n{}",
                                      output.name, to_string(graph)));
    }
  }
}

}  // namespace demi::ir
