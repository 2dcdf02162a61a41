#include "src/ir/graph.h"

#include <algorithm>
#include <set>

#include "src/core/check.h"
#include "src/ir/op_registry.h"

namespace demi::ir {
namespace {

std::vector<TensorType> infer_types(const Graph& graph, const OpDef& op,
                                    const std::vector<ValueId>& inputs,
                                    const Attributes& attributes) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ValueId id : inputs) types.push_back(graph.type(id));
  return op.infer({types, attributes});
}

std::shared_ptr<Graph>& current_trace() {
  thread_local std::shared_ptr<Graph> graph;
  return graph;
}

}  // namespace

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "";
}

std::shared_ptr<Graph> Graph::copy() const {
  auto graph = create();
  graph->nodes_ = nodes_;
  graph->values_ = values_;
  graph->order_ = order_;
  graph->outputs_ = outputs_;
  graph->latest_version_ = latest_version_;
  graph->scope_ = scope_;
  graph->randomness = randomness;
  return graph;
}

NodeId Graph::insert(Node node, const std::vector<TensorType>& output_types) {
  const auto id = static_cast<NodeId>(nodes_.size());
  node.scope = scope_;
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    node.outputs.push_back(static_cast<ValueId>(values_.size()));
    values_.push_back({output_types[i], id, static_cast<int>(i)});
  }
  nodes_.push_back(std::move(node));
  if (insertion_point_ < 0) {
    order_.push_back(id);
  } else {
    const auto place = std::find(order_.begin(), order_.end(), insertion_point_);
    DEMI_CHECK(place != order_.end(), "the insertion point is not in the graph");
    order_.insert(place, id);
  }
  return id;
}

ValueId Graph::add_input(std::string name, TensorType type) {
  Node node;
  node.op = &OpRegistry::instance().find("input");
  node.name = std::move(name);
  return nodes_[static_cast<std::size_t>(insert(std::move(node), {std::move(type)}))].outputs[0];
}

ValueId Graph::read_variable(const std::shared_ptr<VariableState>& variable) {
  const auto found = latest_version_.find(variable.get());
  if (found != latest_version_.end()) return found->second;
  // Variables come first: whoever reads one later, even earlier in the order, finds it produced.
  const NodeId insertion_point = insertion_point_;
  insertion_point_ = order_.empty() ? -1 : order_.front();
  const Scope scope = scope_;
  scope_ = {};
  Node node;
  node.op = &OpRegistry::instance().find("variable");
  node.variable = variable;
  const NodeId id = insert(std::move(node), {variable->type});
  scope_ = scope;
  insertion_point_ = insertion_point;
  return latest_version_[variable.get()] = this->node(id).outputs[0];
}

NodeId Graph::add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attributes) {
  const std::vector<TensorType> types = infer_types(*this, op, inputs, attributes);
  Node node;
  node.op = &op;
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  const NodeId id = insert(std::move(node), types);
  if (op.overwrites != nullptr) {
    const Node& added = this->node(id);
    for (const Overwrite& pair : op.overwrites(added)) {
      const auto variable = variable_of(added.inputs[static_cast<std::size_t>(pair.input)]);
      DEMI_CHECK(variable != nullptr, op.name + " overwrites a value that is not a variable");
      latest_version_[variable.get()] = added.outputs[static_cast<std::size_t>(pair.output)];
    }
  }
  return id;
}

std::shared_ptr<VariableState> Graph::variable_of(ValueId id) const {
  for (;;) {
    const Value& v = value(id);
    const Node& node = this->node(v.producer);
    if (node.variable) return node.variable;
    if (node.op->overwrites == nullptr) return nullptr;
    ValueId overwritten = -1;
    for (const Overwrite& pair : node.op->overwrites(node)) {
      if (pair.output == v.output) overwritten = node.inputs[static_cast<std::size_t>(pair.input)];
    }
    if (overwritten < 0) return nullptr;
    id = overwritten;
  }
}

std::vector<std::vector<NodeId>> Graph::readers() const {
  std::vector<std::vector<NodeId>> result(values_.size());
  for (const NodeId id : order_) {
    for (const ValueId input : node(id).inputs) {
      result[static_cast<std::size_t>(input)].push_back(id);
    }
  }
  return result;
}

void Graph::reinfer(NodeId id) {
  const Node& node = this->node(id);
  const std::vector<TensorType> types = infer_types(*this, *node.op, node.inputs, node.attributes);
  DEMI_CHECK(types.size() == node.outputs.size(), "an op changed its number of outputs");
  for (std::size_t i = 0; i < types.size(); ++i) set_type(node.outputs[i], types[i]);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (const NodeId id : order_) {
    std::replace(node(id).inputs.begin(), node(id).inputs.end(), from, to);
  }
  for (GraphOutput& output : outputs_) {
    if (output.value == from) output.value = to;
  }
}

void Graph::replace_node(NodeId id, const OpDef& op, std::vector<ValueId> inputs,
                         Attributes attributes, std::vector<ValueId> outputs) {
  Node& node = this->node(id);
  node.op = &op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  node.outputs = std::move(outputs);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    Value& value = values_[static_cast<std::size_t>(node.outputs[i])];
    value.producer = id;
    value.output = static_cast<int>(i);
  }
  reinfer(id);
}

void Graph::erase(NodeId id) {
  order_.erase(std::find(order_.begin(), order_.end(), id));
}

void Graph::erase_dead() {
  std::set<ValueId> live;
  for (const GraphOutput& output : outputs_) live.insert(output.value);
  std::vector<NodeId> kept;
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const Node& node = this->node(*it);
    const bool read = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId value) { return live.count(value) > 0; });
    if (!read && node.op->overwrites == nullptr && node.op->name != "input") continue;
    live.insert(node.inputs.begin(), node.inputs.end());
    kept.push_back(*it);
  }
  std::reverse(kept.begin(), kept.end());
  order_ = std::move(kept);
}

void Graph::move(NodeId id, NodeId before) {
  erase(id);
  const auto place = before < 0 ? order_.end() : std::find(order_.begin(), order_.end(), before);
  order_.insert(place, id);
}

TraceScope::TraceScope(std::shared_ptr<Graph> graph) : previous_(std::move(current_trace())) {
  current_trace() = std::move(graph);
}

TraceScope::~TraceScope() {
  current_trace() = std::move(previous_);
}

const std::shared_ptr<Graph>& TraceScope::current() {
  return current_trace();
}

}  // namespace demi::ir
