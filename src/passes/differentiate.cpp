#include <algorithm>

#include <demi/ops/binary.h>

#include "src/core/check.h"
#include "src/ir/builtin_ops.h"
#include "src/ir/op_registry.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

/// Reverse-mode differentiation.
class Differentiate {
 public:
  explicit Differentiate(ir::Graph& graph)
      : graph_(graph),
        forward_(graph.order()),
        wanted_(graph.value_count(), false),
        gradients_(graph.value_count()) {}

  void mark_wanted(ir::ValueId value) { wanted_[static_cast<std::size_t>(value)] = true; }

  /// Spreads "somebody wants this gradient" from the variables to everything computed from them.
  void propagate_wanted() {
    for (const ir::NodeId id : forward_) {
      const ir::Node& node = graph_.node(id);
      if (node.op->gradient == nullptr) continue;
      bool any = false;
      for (const ir::ValueId input : node.inputs) any = any || wanted(input);
      if (!any) continue;
      for (const ir::ValueId output : node.outputs) {
        if (is_floating(graph_.type(output).dtype)) mark_wanted(output);
      }
    }
  }

  [[nodiscard]] bool wanted(ir::ValueId value) const {
    return wanted_[static_cast<std::size_t>(value)];
  }

  void run() {
    graph_.set_insertion_point(-1);
    for (auto it = forward_.rbegin(); it != forward_.rend(); ++it) visit(*it);
  }

  SymbolicTensor& gradient(ir::ValueId value) {
    return gradients_[static_cast<std::size_t>(value)];
  }

 private:
  void visit(ir::NodeId id) {
    const ir::Node node = graph_.node(id);  // a copy: the calls below add nodes
    if (node.op->gradient == nullptr) return;
    std::vector<SymbolicTensor> inputs, outputs, output_gradients;
    std::vector<bool> needed;
    bool any_needed = false, any_present = false;
    for (const ir::ValueId input : node.inputs) {
      inputs.push_back(graph_.tensor(input));
      needed.push_back(wanted(input));
      any_needed = any_needed || wanted(input);
    }
    for (const ir::ValueId output : node.outputs) {
      outputs.push_back(graph_.tensor(output));
      output_gradients.push_back(gradient(output));
      any_present = any_present || static_cast<bool>(gradient(output));
    }
    if (!any_needed || !any_present) return;
    ir::Scope backward = node.scope;
    backward.phase = ir::Phase::kBackward;
    const ir::ScopeGuard scope(graph_, backward);
    const std::vector<SymbolicTensor> results =
        node.op->gradient({inputs, outputs, output_gradients, needed, node.attributes});
    DEMI_CHECK(results.size() == inputs.size(),
               node.op->name + ": one gradient per input expected");
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (needed[i] && results[i]) accumulate(*node.op, inputs[i], results[i]);
    }
  }

  void accumulate(const ir::OpDef& op, const SymbolicTensor& value, const SymbolicTensor& added) {
    DEMI_CHECK(added.shape() == value.shape() && added.dtype() == value.dtype(),
               op.name + ": gradient " + TensorType{added.shape(), added.dtype()}.to_string() +
                   " of a value " + TensorType{value.shape(), value.dtype()}.to_string());
    SymbolicTensor& sum = gradient(value.value());
    sum = sum ? ops::add(sum, added) : added;
  }

  ir::Graph& graph_;
  const std::vector<ir::NodeId> forward_;
  std::vector<bool> wanted_;
  std::vector<SymbolicTensor> gradients_;
};

}  // namespace

std::vector<SymbolicTensor> differentiate(ir::Graph& graph, const std::vector<Seed>& seeds,
                                          const std::vector<SymbolicTensor>& targets) {
  Differentiate pass(graph);
  for (const SymbolicTensor& target : targets) pass.mark_wanted(target.value());
  pass.propagate_wanted();
  for (const Seed& seed : seeds) pass.gradient(seed.value.value()) = seed.gradient;
  pass.run();
  std::vector<SymbolicTensor> gradients;
  gradients.reserve(targets.size());
  for (const SymbolicTensor& target : targets) gradients.push_back(pass.gradient(target.value()));
  return gradients;
}

std::vector<SymbolicTensor> differentiate(
    ir::Graph& graph, const SymbolicTensor& loss,
    const std::vector<std::shared_ptr<VariableState>>& variables) {
  DEMI_CHECK(loss.shape().rank() == 0,
             "the loss must be a scalar, it is " + loss.shape().to_string());
  std::vector<SymbolicTensor> targets;
  for (const auto& variable : variables) {
    targets.push_back(graph.tensor(graph.read_variable(variable)));
  }
  SymbolicTensor one;
  {
    const ir::ScopeGuard scope(graph, {.layer = "", .phase = ir::Phase::kBackward});
    const ir::NodeId node = graph.add_node(ir::OpRegistry::instance().find("constant"), {},
                                           ir::ConstantAttributes{1.0, loss.shape(), loss.dtype()});
    one = graph.tensor(graph.node(node).outputs[0]);
  }
  std::vector<SymbolicTensor> gradients = differentiate(graph, {{loss, one}}, targets);
  if (std::none_of(gradients.begin(), gradients.end(),
                   [](const SymbolicTensor& gradient) { return static_cast<bool>(gradient); })) {
    internal::fail_argument("compile",
                            "expected a loss that depends on a trainable weight through "
                            "differentiable operations. Received: one that does not.");
  }
  return gradients;
}

}  // namespace demi::passes
