#include "src/ir/structural_zeros.h"

#include <algorithm>

namespace demi::ir {

std::optional<Scattered> scattered(const Graph& graph, ValueId value) {
  std::vector<NodeId> through;
  while (graph.value(value).output == 0 && graph.producer(value).op->elementwise_linear) {
    through.push_back(graph.value(value).producer);
    value = graph.producer(value).inputs[0];
  }
  const Node& node = graph.producer(value);
  if (graph.value(value).output != 0 || node.op->scatter == nullptr) return std::nullopt;
  const std::optional<Scatter> scatter = node.op->scatter(node);
  if (!scatter) return std::nullopt;
  std::reverse(through.begin(), through.end());
  return Scattered{node.inputs[static_cast<std::size_t>(scatter->values)],
                   node.inputs[static_cast<std::size_t>(scatter->places)], node.attributes,
                   std::move(through)};
}

ValueId gather_values(Graph& graph, const Scattered& scattered, NodeId reader) {
  ValueId values = scattered.values;
  graph.set_insertion_point(reader);
  for (const NodeId id : scattered.through) {
    const ScopeGuard scope(graph, graph.node(id).scope);
    const NodeId applied = graph.add_node(*graph.node(id).op, {values}, graph.node(id).attributes);
    values = graph.node(applied).outputs[0];
  }
  graph.set_insertion_point(-1);
  return values;
}

}  // namespace demi::ir
