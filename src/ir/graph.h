// The intermediate representation: a graph of typed nodes in topological order.
//
// Invariants (ir::verify checks them):
//  1. Every input of a node is produced by a node earlier in order().
//  2. Value types are those that the op's infer gives for its input types (output 0 also in
//     another dtype that the op's StoreRule allows).
//  3. A value whose storage has been overwritten is not read by a later node.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/core/variable_state.h"
#include "src/ir/op_def.h"

namespace demi::ir {

using NodeId = std::int32_t;
using ValueId = std::int32_t;

/// Which part of a training step a node belongs to.
enum class Phase { kForward, kBackward, kUpdate };

[[nodiscard]] const char* to_string(Phase phase);

/// What a new node inherits from the place where it is written.
struct Scope {
  std::string layer;                      ///< path of the layer, "" outside of layers
  DType compute_dtype = DType::kFloat32;  ///< of that layer's policy
  Phase phase = Phase::kForward;
};

struct Value {
  TensorType type;
  NodeId producer = -1;
  int output = 0;  ///< which output of the producer
};

struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Scope scope;
  std::string name;                         ///< of "input" nodes
  std::shared_ptr<VariableState> variable;  ///< of "variable" nodes
  NodeId repeats = -1;  ///< the forward node that it computes again for the backward half
};

/// A named result that must still be in memory when the graph has run.
struct GraphOutput {
  std::string name;
  ValueId value;
};

/// Seed and step counter of random ops; set by whoever starts the trace.
struct Randomness {
  std::uint64_t seed = 0;
  std::shared_ptr<VariableState> counter;  ///< int64 scalar, advanced once per training step
};

/// Nodes and values keep their ids and addresses while the graph is written and rewritten; only
/// order() changes. Owned by shared_ptr because SymbolicTensors keep their graph alive. Not thread
/// safe.
class Graph : public std::enable_shared_from_this<Graph> {
 public:
  Graph() = default;
  virtual ~Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  [[nodiscard]] static std::shared_ptr<Graph> create() { return std::make_shared<Graph>(); }
  /// A graph of the same nodes and values under the same ids.
  [[nodiscard]] std::shared_ptr<Graph> copy() const;

  // --- writing ---

  /// A value fed from outside before each run.
  ValueId add_input(std::string name, TensorType type);
  /// The latest version of a variable in this graph; the first call adds its "variable" node.
  ValueId read_variable(const std::shared_ptr<VariableState>& variable);
  /// Infers the output types and adds a node at the insertion point, in the current scope.
  NodeId add_node(const OpDef& op, std::vector<ValueId> inputs, Attributes attributes = {});

  /// New nodes go before `node` from now on; -1: to the end.
  void set_insertion_point(NodeId node) { insertion_point_ = node; }
  [[nodiscard]] NodeId insertion_point() const { return insertion_point_; }
  [[nodiscard]] Scope& scope() { return scope_; }

  void add_output(std::string name, ValueId value) { outputs_.push_back({std::move(name), value}); }

  // --- reading ---

  /// Node ids in execution order.
  [[nodiscard]] const std::vector<NodeId>& order() const { return order_; }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Node& node(NodeId id) { return nodes_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Value& value(ValueId id) const {
    return values_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const TensorType& type(ValueId id) const { return value(id).type; }
  [[nodiscard]] const Node& producer(ValueId id) const { return node(value(id).producer); }
  [[nodiscard]] std::size_t value_count() const { return values_.size(); }
  [[nodiscard]] const std::vector<GraphOutput>& outputs() const { return outputs_; }
  /// The variable that `id` is a version of, or null.
  [[nodiscard]] std::shared_ptr<VariableState> variable_of(ValueId id) const;
  /// For each value id the nodes that read it, in order (a node appears once per use).
  [[nodiscard]] std::vector<std::vector<NodeId>> readers() const;
  [[nodiscard]] SymbolicTensor tensor(ValueId id) { return {shared_from_this(), id}; }

  Randomness randomness;

  // --- rewriting ---

  /// Gives a value another type. The caller keeps invariant 2.
  void set_type(ValueId id, TensorType type) {
    values_[static_cast<std::size_t>(id)].type = std::move(type);
  }
  /// Computes the output types of a node anew from its inputs.
  void reinfer(NodeId id);
  /// Every node and graph output that reads `from` reads `to` instead.
  void replace_uses(ValueId from, ValueId to);
  /// Turns a node into one of another op that produces the existing values `outputs`, whose types
  /// become what that op infers. The node keeps its place and scope; values it no longer produces
  /// must be unused.
  void replace_node(NodeId id, const OpDef& op, std::vector<ValueId> inputs, Attributes attributes,
                    std::vector<ValueId> outputs);
  /// Drops a node from order(); its values must be unused.
  void erase(NodeId id);
  /// Drops every node that no graph output and no state update depends on.
  void erase_dead();
  /// Moves a node to just before `before` (-1: to the end). The caller keeps invariant 1.
  void move(NodeId id, NodeId before);

 private:
  NodeId insert(Node node, const std::vector<TensorType>& output_types);

  std::deque<Node> nodes_;
  std::deque<Value> values_;
  std::vector<NodeId> order_;
  std::vector<GraphOutput> outputs_;
  std::map<const VariableState*, ValueId> latest_version_;
  NodeId insertion_point_ = -1;
  Scope scope_;
};

/// The graph as text, one node a line, for tests and people:
///   %3 = conv2d(%1, %2) {strides=[1, 1], padding=valid} : float16[8, 26, 26, 32]  # conv2d forward
[[nodiscard]] std::string to_string(const Graph& graph);

/// Throws InternalError naming the first broken invariant.
void verify(const Graph& graph);

/// Sets the graph that this thread traces into, for its lifetime; variables are read in it.
class TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Graph> graph);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  /// The innermost one on this thread, or null.
  [[nodiscard]] static const std::shared_ptr<Graph>& current();

 private:
  std::shared_ptr<Graph> previous_;
};

/// Sets graph.scope() for its lifetime.
class ScopeGuard {
 public:
  ScopeGuard(Graph& graph, Scope scope) : graph_(graph), previous_(graph.scope()) {
    graph.scope() = std::move(scope);
  }
  ~ScopeGuard() { graph_.scope() = std::move(previous_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Graph& graph_;
  Scope previous_;
};

}  // namespace demi::ir
