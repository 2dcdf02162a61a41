#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "src/ir/builtin_ops.h"
#include "src/ir/op_registry.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

/// True if every value of `from` is exactly representable in `to`.
bool is_widening(DType from, DType to) {
  return is_floating(from) && is_floating(to) && promote(from, to) == to && from != to;
}

bool is_constant(const ir::Graph& graph, ir::ValueId value, double number) {
  const ir::Node& node = graph.producer(value);
  return node.op->name == "constant" &&
         node.attributes.as<ir::ConstantAttributes>().value == number;
}

/// The value that node `node` merely repeats, or -1.
ir::ValueId repeated_value(const ir::Graph& graph, const ir::Node& node) {
  const std::string& op = node.op->name;
  if (op == "layer_output") return node.inputs[0];
  const auto same_type = [&](ir::ValueId input) {
    return graph.type(input) == graph.type(node.outputs[0]);
  };
  if ((op == "cast" || op == "reshape" || op == "broadcast_to" || op == "sum_to") &&
      same_type(node.inputs[0])) {
    return node.inputs[0];
  }
  if (op == "cast") {
    const ir::Node& before = graph.producer(node.inputs[0]);
    if (before.op->name == "cast" && graph.type(before.inputs[0]) == graph.type(node.outputs[0]) &&
        is_widening(graph.type(before.inputs[0]).dtype, graph.type(node.inputs[0]).dtype)) {
      return before.inputs[0];
    }
  }
  if (op == "multiply" || op == "divide") {
    if (same_type(node.inputs[0]) && is_constant(graph, node.inputs[1], 1.0)) return node.inputs[0];
    if (op == "multiply" && same_type(node.inputs[1]) && is_constant(graph, node.inputs[0], 1.0)) {
      return node.inputs[1];
    }
  }
  return -1;
}

void drop_repetitions(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    const ir::Node& node = graph.node(id);
    if (node.outputs.size() != 1 || node.inputs.empty()) continue;
    const ir::ValueId repeated = repeated_value(graph, node);
    if (repeated < 0) continue;
    graph.replace_uses(node.outputs[0], repeated);
    graph.erase(id);
  }
}

/// The value that every element of a node's result has if all its inputs are constants.
std::optional<double> constant_result(const ir::Graph& graph, const ir::Node& node) {
  std::vector<double> inputs;
  for (const ir::ValueId input : node.inputs) {
    const ir::Node& producer = graph.producer(input);
    if (producer.op->name != "constant") return std::nullopt;
    inputs.push_back(producer.attributes.as<ir::ConstantAttributes>().value);
  }
  const std::string& op = node.op->name;
  if (op == "cast" || op == "reshape") return inputs[0];
  if (op == "multiply") return inputs[0] * inputs[1];
  if (op == "divide") return inputs[0] / inputs[1];
  return std::nullopt;
}

/// Replaces scalars computed from constants by constants, rounded to their dtype as a kernel would.
void fold_constants(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    const ir::Node& node = graph.node(id);
    if (node.op->infer == nullptr || node.inputs.empty() || node.outputs.size() != 1) continue;
    const TensorType type = graph.type(node.outputs[0]);
    if (!is_floating(type.dtype) || !type.shape.is_known() || type.shape.elements() != 1) continue;
    const std::optional<double> result = constant_result(graph, node);
    if (!result) continue;
    const double rounded = Tensor::full({}, *result, type.dtype).item();
    graph.replace_node(id, ir::OpRegistry::instance().find("constant"), {},
                       ir::ConstantAttributes{rounded, type.shape, type.dtype},
                       graph.node(id).outputs);
  }
}

/// x = op(...); y = cast(x), x not read otherwise: op stores y itself if it can.
void fold_stores(ir::Graph& graph) {
  const std::vector<std::vector<ir::NodeId>> readers = graph.readers();
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    const ir::Node& cast = graph.node(id);
    if (cast.op->name != "cast") continue;
    const ir::ValueId x = cast.inputs[0];
    const ir::ValueId y = cast.outputs[0];
    const ir::Node& producer = graph.producer(x);
    const bool is_output =
        std::any_of(graph.outputs().begin(), graph.outputs().end(),
                    [&](const ir::GraphOutput& output) { return output.value == x; });
    if (producer.op->infer == nullptr || graph.value(x).output != 0 || is_output ||
        readers[static_cast<std::size_t>(x)].size() != 1) {
      continue;
    }
    if (!is_floating(graph.type(x).dtype) ||
        !ir::can_store(*producer.op, graph.type(x).dtype, graph.type(y).dtype)) {
      continue;
    }
    graph.set_type(x, graph.type(y));
    graph.replace_uses(y, x);
    graph.erase(id);
  }
}

/// Nodes of the same op, inputs, attributes and phase compute the same: the first one serves all.
/// Casts of variables are shared by all phases, so that a weight is converted once a step.
void share_repeated_computations(ir::Graph& graph) {
  using Key = std::tuple<const ir::OpDef*, std::vector<ir::ValueId>, std::string, int, DType>;
  std::map<Key, std::vector<ir::NodeId>> seen;
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    const ir::Node& node = graph.node(id);
    if (node.op->infer == nullptr || node.op->overwrites != nullptr) continue;
    const bool any_phase = node.inputs.empty() || graph.producer(node.inputs[0]).variable;
    const Key key{node.op, node.inputs, node.attributes.to_string(),
                  any_phase ? -1 : static_cast<int>(node.scope.phase),
                  graph.type(node.outputs[0]).dtype};
    std::vector<ir::NodeId>& candidates = seen[key];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](ir::NodeId other) {
      return graph.node(other).attributes == node.attributes;
    });
    if (same == candidates.end()) {
      candidates.push_back(id);
      continue;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      graph.replace_uses(node.outputs[i], graph.node(*same).outputs[i]);
    }
    graph.erase(id);
  }
}

}  // namespace

void simplify(ir::Graph& graph) {
  for (;;) {
    graph.erase_dead();
    const std::size_t before = graph.order().size();
    fold_constants(graph);
    drop_repetitions(graph);
    share_repeated_computations(graph);
    fold_stores(graph);
    if (graph.order().size() == before) return;
  }
}

}  // namespace demi::passes
