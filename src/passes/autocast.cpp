#include <algorithm>
#include <map>

#include <demi/ops/cast.h>

#include "src/ir/builtin_ops.h"
#include "src/ir/op_registry.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

using ir::AutocastRule;

class Autocast {
 public:
  explicit Autocast(ir::Graph& graph) : graph_(graph) {}

  void run() {
    const std::vector<ir::NodeId> order = graph_.order();
    for (const ir::NodeId id : order) visit(id);
    graph_.set_insertion_point(-1);
  }

 private:
  [[nodiscard]] bool is_constant(ir::ValueId value) const {
    return graph_.producer(value).op->name == "constant";
  }

  /// The dtype an input counts with: a weight is read in the compute dtype.
  [[nodiscard]] DType effective_dtype(ir::ValueId value, DType compute) const {
    const ir::Node& producer = graph_.producer(value);
    const DType dtype = graph_.type(value).dtype;
    return producer.variable && producer.variable->autocast && is_floating(dtype) ? compute : dtype;
  }

  [[nodiscard]] DType promoted_dtype(const ir::Node& node) const {
    bool found = false;
    DType result = node.scope.compute_dtype;
    for (const ir::ValueId input : node.inputs) {
      if (!is_floating(graph_.type(input).dtype) || is_constant(input)) continue;
      const DType dtype = effective_dtype(input, node.scope.compute_dtype);
      result = found ? promote(result, dtype) : dtype;
      found = true;
    }
    if (found) return result;
    for (const ir::ValueId input : node.inputs) {
      if (is_floating(graph_.type(input).dtype)) return graph_.type(input).dtype;
    }
    return result;
  }

  /// The dtype that input `index` must have; its own where nothing is asked.
  [[nodiscard]] DType wanted_dtype(const ir::Node& node, std::size_t index, DType promoted) const {
    const ir::ValueId input = node.inputs[index];
    const DType dtype = graph_.type(input).dtype;
    switch (node.op->rule_of_input(index)) {
      case AutocastRule::kLowPrecision:
        return node.scope.compute_dtype;
      case AutocastRule::kFloat32:
        return promote(promoted, DType::kFloat32);
      case AutocastRule::kPromote:
        return promoted;
      case AutocastRule::kKeep:
        // A weight that is only moved is still read in the compute dtype; a cast reads it as
        // stored.
        return node.op->name == "cast" ? dtype : effective_dtype(input, node.scope.compute_dtype);
    }
    return dtype;
  }

  [[nodiscard]] bool is_overwritten(const ir::Node& node, std::size_t index) const {
    if (node.op->overwrites == nullptr) return false;
    const std::vector<ir::Overwrite> pairs = node.op->overwrites(node);
    return std::any_of(pairs.begin(), pairs.end(), [&](const ir::Overwrite& pair) {
      return static_cast<std::size_t>(pair.input) == index;
    });
  }

  ir::ValueId converted(ir::ValueId value, DType dtype) {
    const auto found = casts_.find({value, dtype});
    if (found != casts_.end()) return found->second;
    ir::ValueId result;
    if (is_constant(value)) {
      auto constant = graph_.producer(value).attributes.as<ir::ConstantAttributes>();
      constant.dtype = dtype;
      const ir::NodeId node =
          graph_.add_node(ir::OpRegistry::instance().find("constant"), {}, constant);
      result = graph_.node(node).outputs[0];
    } else {
      result = ops::cast(graph_.tensor(value), dtype).value();
    }
    casts_[{value, dtype}] = result;
    return result;
  }

  void visit(ir::NodeId id) {
    if (graph_.node(id).inputs.empty()) return;
    const DType promoted = promoted_dtype(graph_.node(id));
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const ir::Node& node = graph_.node(id);
      const ir::ValueId input = node.inputs[i];
      const DType dtype = graph_.type(input).dtype;
      if (!is_floating(dtype) || is_overwritten(node, i)) continue;
      const DType wanted = wanted_dtype(node, i, promoted);
      if (wanted == dtype) continue;
      graph_.set_insertion_point(id);
      const ir::ScopeGuard scope(graph_, node.scope);
      const ir::ValueId cast = converted(input, wanted);
      graph_.node(id).inputs[i] = cast;
    }
    graph_.reinfer(id);
  }

  ir::Graph& graph_;
  /// Conversions written so far; they stand before every later node, so they can be shared.
  std::map<std::pair<ir::ValueId, DType>, ir::ValueId> casts_;
};

}  // namespace

void autocast(ir::Graph& graph) {
  Autocast(graph).run();
}

}  // namespace demi::passes
