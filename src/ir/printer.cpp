#include <fmt/format.h>

#include "src/ir/graph.h"

namespace demi::ir {
namespace {

std::string join_values(const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId value : values) text += fmt::format("{}%{}", text.empty() ? "" : ", ", value);
  return text;
}

std::string print_node(const Graph& graph, const Node& node) {
  std::string line = fmt::format("{} = {}", join_values(node.outputs), node.op->name);
  if (node.variable) {
    line += fmt::format("({})", node.variable->name);
  } else if (!node.name.empty()) {
    line += fmt::format("({})", node.name);
  } else {
    line += fmt::format("({})", join_values(node.inputs));
  }
  const std::string attributes = node.attributes.to_string();
  if (!attributes.empty()) line += " {" + attributes + "}";
  std::string types;
  for (const ValueId output : node.outputs) {
    types += (types.empty() ? " : " : ", ") + graph.type(output).to_string();
  }
  line += types;
  if (!node.scope.layer.empty() || node.scope.phase != Phase::kForward) {
    line += fmt::format("  # {}{}{}", node.scope.layer, node.scope.layer.empty() ? "" : " ",
                        to_string(node.scope.phase));
  }
  return line;
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string text;
  for (const NodeId id : graph.order()) text += print_node(graph, graph.node(id)) + "\n";
  for (const GraphOutput& output : graph.outputs()) {
    text += fmt::format("return {} = %{}\n", output.name, output.value);
  }
  return text;
}

}  // namespace demi::ir
