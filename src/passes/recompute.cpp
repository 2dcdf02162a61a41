// Activation recomputation: trades forward work for memory.
//
// Note [Recomputation]
// What the backward half reads of the forward half must be kept from one to the other. A dropped
// value is instead computed again by a copy of its producer. The copy reads the operands of the
// original: those that are kept anyway (or never leave: weights, feeds) as they are, others as
// copies of their own, so that a run of dropped values is computed again from the last one kept
// before it. Each copy stands just before its first use and serves all uses.
//
// Note [Choice of what to drop]
// The cheapest set that fits cannot be found in reasonable time. These are looked at:
//  - Values in the order of the work that dropping one more costs per byte that it frees, taking
//    into account what is dropped already, since a run of dropped values shares its copies: the
//    shortest beginning of that order that fits.
//  - Everything but every n-th bottleneck, for n = 1, 2, 4, …: a value through which all of the
//    forward half goes that comes later, like the result of a residual block. What is computed
//    again then never spans more than n of such blocks at a time.
// Of each that fits, what turns out not to be needed is left out, the most costly first; then the
// cheapest is taken.

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "src/ir/op_registry.h"
#include "src/ir/work.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

/// Results smaller than their node's largest operand by this factor are not worth dropping.
constexpr std::size_t kSmall = 32;
/// A multiply-add takes this share of the time of moving an element of memory.
constexpr double kMultiplyAdd = 1.0 / 16;

class Activations {
 public:
  explicit Activations(const ir::Graph& graph) : graph_(graph) {
    for (const ir::NodeId id : graph.order()) {
      if (graph.node(id).scope.phase != ir::Phase::kBackward) continue;
      for (const ir::ValueId input : graph.node(id).inputs) {
        read_.insert(root(input));
        if (can_repeat(root(input))) reads_.emplace_back(id, input);
      }
    }
  }

  [[nodiscard]] const ir::Graph& graph() const { return graph_; }

  /// The value whose bytes `value` shows.
  [[nodiscard]] ir::ValueId root(ir::ValueId value) const {
    while (graph_.producer(value).op->is_view) value = graph_.producer(value).inputs[0];
    return value;
  }

  /// Whether a copy of the producer would compute the same.
  [[nodiscard]] bool can_repeat(ir::ValueId value) const {
    const ir::Node& node = graph_.producer(value);
    const bool computes = node.op->infer != nullptr && node.op->name != "constant";
    if (!computes || node.op->overwrites != nullptr) return false;
    if (node.scope.phase != ir::Phase::kForward) return false;
    return node.inputs.empty() || node.op->name != "cast" ||
           graph_.variable_of(node.inputs[0]) == nullptr;
  }

  [[nodiscard]] bool is_read_backward(ir::ValueId value) const {
    return read_.count(root(value)) > 0;
  }
  [[nodiscard]] const std::set<ir::ValueId>& read_backward() const { return read_; }
  /// Reads of what could be repeated, {reader, value}, in order.
  [[nodiscard]] const std::vector<std::pair<ir::NodeId, ir::ValueId>>& reads() const {
    return reads_;
  }

  [[nodiscard]] bool is_small(ir::ValueId value) const {
    const ir::Node& node = graph_.producer(value);
    std::size_t largest = 0;
    for (const ir::ValueId input : node.inputs) {
      if (!graph_.variable_of(input)) largest = std::max(largest, graph_.type(input).bytes());
    }
    return graph_.type(value).bytes() * kSmall < largest;
  }

 private:
  const ir::Graph& graph_;
  std::set<ir::ValueId> read_;  ///< roots of what the backward half reads
  std::vector<std::pair<ir::NodeId, ir::ValueId>> reads_;
};

double work_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->is_view || node.op->infer == nullptr) return 0;
  double moved = 0;
  for (const ir::ValueId input : node.inputs) {
    moved += static_cast<double>(graph.type(input).shape.elements());
  }
  for (const ir::ValueId output : node.outputs) {
    moved += static_cast<double>(graph.type(output).shape.elements());
  }
  return std::max(moved, ir::multiply_adds(graph, node) * kMultiplyAdd);
}

/// Finds the nodes to repeat, before their uses, operands first.
class Repetition {
 public:
  Repetition(const Activations& activations, const std::vector<ir::ValueId>& dropped)
      : activations_(activations), dropped_(dropped.begin(), dropped.end()) {}

  /// Whether the backward half reads a copy of `value`.
  [[nodiscard]] bool is_repeated(ir::ValueId value) const {
    if (!activations_.can_repeat(value)) return false;
    return is_dropped(value) || !activations_.is_read_backward(value);
  }

  /// Calls `repeat` for each node whose outputs must be there to read `value` and are not yet.
  template <class Repeat>
  void require(ir::ValueId value, const Repeat& repeat) {
    if (!is_repeated(value)) return;
    const ir::NodeId id = activations_.graph().value(value).producer;
    if (!done_.insert(id).second) return;
    const std::vector<ir::ValueId> inputs = activations_.graph().node(id).inputs;
    for (const ir::ValueId input : inputs) require(input, repeat);
    repeat(id);
  }

  /// Calls `visit(reader, value)` for each read of a dropped value by the backward half.
  template <class Visit>
  void for_each_read(const Visit& visit) const {
    for (const auto& [reader, value] : activations_.reads()) {
      if (is_dropped(value)) visit(reader, value);
    }
  }

 private:
  [[nodiscard]] bool is_dropped(ir::ValueId value) const {
    return dropped_.count(activations_.root(value)) > 0;
  }

  const Activations& activations_;
  std::set<ir::ValueId> dropped_;
  std::set<ir::NodeId> done_;
};

std::vector<ir::ValueId> recomputable(const Activations& activations) {
  std::vector<ir::ValueId> values;
  for (const ir::ValueId value : activations.read_backward()) {
    if (activations.can_repeat(value) && !activations.is_small(value)) values.push_back(value);
  }
  return values;
}

/// The work of computing `dropped` again.
double work_of_dropping(const Activations& activations, const std::vector<ir::ValueId>& dropped) {
  double work = 0;
  Repetition repetition(activations, dropped);
  repetition.for_each_read([&](ir::NodeId, ir::ValueId value) {
    repetition.require(value, [&](ir::NodeId id) {
      work += work_of(activations.graph(), activations.graph().node(id));
    });
  });
  return work;
}

void recompute(ir::Graph& graph, const Activations& activations,
               const std::vector<ir::ValueId>& dropped) {
  Repetition repetition(activations, dropped);
  std::map<ir::ValueId, ir::ValueId> copies;
  const auto copy_of = [&](ir::ValueId value) {
    const auto found = copies.find(value);
    return found == copies.end() ? value : found->second;
  };
  const auto repeat = [&](ir::NodeId id) {
    const ir::Node original = graph.node(id);
    ir::Scope scope = original.scope;
    scope.phase = ir::Phase::kBackward;
    const ir::ScopeGuard guard(graph, scope);
    std::vector<ir::ValueId> inputs;
    for (const ir::ValueId input : original.inputs) inputs.push_back(copy_of(input));
    const ir::NodeId copy = graph.add_node(*original.op, std::move(inputs), original.attributes);
    graph.node(copy).repeats = id;
    for (std::size_t i = 0; i < original.outputs.size(); ++i) {
      const ir::ValueId output = graph.node(copy).outputs[i];
      // The dtype may be one that the op was asked to store.
      graph.set_type(output, graph.type(original.outputs[i]));
      if (repetition.is_repeated(original.outputs[i])) copies[original.outputs[i]] = output;
    }
  };
  repetition.for_each_read([&](ir::NodeId reader, ir::ValueId value) {
    graph.set_insertion_point(reader);
    repetition.require(value, repeat);
    graph.set_insertion_point(-1);
    std::vector<ir::ValueId>& inputs = graph.node(reader).inputs;
    std::replace(inputs.begin(), inputs.end(), value, copy_of(value));
  });
  graph.erase_dead();
}

/// Those of `values`, in order, beside which the forward half keeps hardly anything for itself.
std::vector<ir::ValueId> bottlenecks(const Activations& activations,
                                     const std::vector<ir::ValueId>& values) {
  const ir::Graph& graph = activations.graph();
  std::map<ir::ValueId, std::pair<std::size_t, std::size_t>> alive;  // root: first, last position
  const std::vector<ir::NodeId>& order = graph.order();
  for (std::size_t at = 0; at < order.size(); ++at) {
    const ir::Node& node = graph.node(order[at]);
    if (node.scope.phase != ir::Phase::kForward || node.op->overwrites != nullptr) continue;
    for (const ir::ValueId input : node.inputs) {
      const auto found = alive.find(activations.root(input));
      if (found != alive.end()) found->second.second = at;
    }
    for (const ir::ValueId output : node.outputs) {
      if (activations.can_repeat(output)) alive.try_emplace(activations.root(output), at, at);
    }
  }
  std::vector<std::size_t> bytes(order.size() + 1);
  for (const auto& [value, range] : alive) {
    for (std::size_t at = range.first; at < range.second; ++at) {
      bytes[at] += graph.type(value).bytes();
    }
  }
  constexpr std::size_t kHardly = 8;
  std::vector<std::pair<std::size_t, ir::ValueId>> found;
  for (const ir::ValueId value : values) {
    const auto& [first, last] = alive.at(value);
    const std::size_t own = graph.type(value).bytes();
    if (first < last && (bytes[first] - own) * kHardly < own) found.emplace_back(first, value);
  }
  std::sort(found.begin(), found.end());
  std::vector<ir::ValueId> in_order;
  for (const auto& [at, value] : found) in_order.push_back(value);
  return in_order;
}

/// See Note [Choice of what to drop].
class Choice {
 public:
  Choice(const ir::Graph& graph, std::size_t limit,
         const std::function<std::size_t(const ir::Graph&)>& bytes)
      : activations_(graph), limit_(limit), bytes_(bytes) {}

  std::vector<ir::ValueId> make() {
    if (bytes_(activations_.graph()) <= limit_) return {};
    const std::vector<ir::ValueId> all = recomputable(activations_);
    consider_beginnings(in_order_of_worth(all));
    const std::vector<ir::ValueId> through = bottlenecks(activations_, all);
    for (std::size_t every = 1; every <= through.size(); every *= 2) {
      std::vector<ir::ValueId> dropped = all;
      for (std::size_t i = every - 1; i < through.size(); i += every) {
        std::erase(dropped, through[i]);
      }
      (void)consider(dropped);
    }
    return best_;
  }

 private:
  [[nodiscard]] std::size_t bytes_with(const std::vector<ir::ValueId>& dropped) const {
    const std::shared_ptr<ir::Graph> graph = activations_.graph().copy();
    recompute(*graph, Activations(*graph), dropped);
    return bytes_(*graph);
  }

  [[nodiscard]] double work_with(std::vector<ir::ValueId> dropped, ir::ValueId one_more) const {
    dropped.push_back(one_more);
    return work_of_dropping(activations_, dropped);
  }

  [[nodiscard]] std::vector<ir::ValueId> in_order_of_worth(std::vector<ir::ValueId> left) const {
    std::vector<ir::ValueId> order;
    double work = 0;
    while (!left.empty()) {
      auto best = left.begin();
      double best_ratio = std::numeric_limits<double>::infinity(), best_work = 0;
      for (auto value = left.begin(); value != left.end(); ++value) {
        const double with = work_with(order, *value);
        const double ratio =
            (with - work) / static_cast<double>(activations_.graph().type(*value).bytes());
        if (ratio >= best_ratio) continue;
        best = value;
        best_ratio = ratio;
        best_work = with;
      }
      order.push_back(*best);
      left.erase(best);
      work = best_work;
    }
    return order;
  }

  void consider_beginnings(const std::vector<ir::ValueId>& order) {
    std::vector<ir::ValueId> dropped;
    for (const ir::ValueId value : order) {
      dropped.push_back(value);
      if (consider(dropped)) return;
    }
  }

  /// Remembers `dropped` if it is better than what was considered before. Whether it fits.
  bool consider(std::vector<ir::ValueId> dropped) {
    const std::size_t bytes = bytes_with(dropped);
    const bool fits = bytes <= limit_;
    if (fits) leave_out(dropped);
    const double work = work_of_dropping(activations_, dropped);
    const bool best_fits = best_bytes_ <= limit_;
    if (fits ? !best_fits || work < best_work_ : !best_fits && bytes < best_bytes_) {
      best_ = std::move(dropped);
      best_bytes_ = bytes;
      best_work_ = work;
    }
    return fits;
  }

  void leave_out(std::vector<ir::ValueId>& chosen) const {
    std::vector<std::pair<double, ir::ValueId>> by_work;
    for (const ir::ValueId value : chosen) by_work.emplace_back(work_with({}, value), value);
    std::stable_sort(by_work.begin(), by_work.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [work, value] : by_work) {
      std::vector<ir::ValueId> fewer = chosen;
      std::erase(fewer, value);
      const bool is_cheaper =
          work_of_dropping(activations_, fewer) < work_of_dropping(activations_, chosen);
      if (is_cheaper && bytes_with(fewer) <= limit_) chosen = std::move(fewer);
    }
  }

  Activations activations_;
  std::size_t limit_;
  const std::function<std::size_t(const ir::Graph&)>& bytes_;
  std::vector<ir::ValueId> best_;
  std::size_t best_bytes_ = std::numeric_limits<std::size_t>::max();
  double best_work_ = 0;
};

}  // namespace

std::vector<ir::ValueId> recomputable(const ir::Graph& graph) {
  return recomputable(Activations(graph));
}

Recomputation recomputation_of(const ir::Graph& graph) {
  Recomputation found;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.scope.phase == ir::Phase::kForward) found.forward_work += work_of(graph, node);
    if (node.repeats < 0) continue;
    found.nodes.push_back(node.repeats);
    found.work += work_of(graph, node);
  }
  return found;
}

void recompute(ir::Graph& graph, const std::vector<ir::ValueId>& dropped) {
  recompute(graph, Activations(graph), dropped);
}

std::vector<ir::ValueId> choose_recomputation(
    const ir::Graph& graph, std::size_t limit,
    const std::function<std::size_t(const ir::Graph&)>& bytes) {
  return Choice(graph, limit, bytes).make();
}

}  // namespace demi::passes
