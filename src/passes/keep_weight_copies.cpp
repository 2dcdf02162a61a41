// Note [Weight copies]
// A weight is stored in float32 and read in the compute dtype, a filter besides in the layout that
// the backend's convolutions want. Instead of a conversion in every step, a copy is kept beside the
// weight: the update that writes one writes the other. What else overwrites a weight on the device
// is followed by a conversion, and what overwrites it from the host converts there
// (VariableState::write). Copies live as long as a step that reads them. Only training steps make
// them, evaluation reads those it finds: a step that only reads weights could not tell whether some
// other step, compiled before it, leaves a new copy behind.

#include <algorithm>
#include <optional>
#include <set>

#include <demi/ops/cast.h>
#include <demi/ops/conv2d.h>
#include <demi/ops/movement.h>
#include <demi/ops/state.h>

#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/optimizer_update.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

using Variable = std::shared_ptr<VariableState>;
using ops::Conv2DAttributes;
using ops::FilterLayout;

class KeepWeightCopies {
 public:
  KeepWeightCopies(ir::Graph& graph, const Capabilities& capabilities)
      : graph_(graph), capabilities_(capabilities) {
    for (const ir::NodeId id : graph_.order()) {
      trains_ = trains_ || ir::update_operands(graph_.node(id)).has_value();
    }
  }

  void run() {
    const std::vector<ir::NodeId> order = graph_.order();
    if (capabilities_.ohwi_filters) {
      for (const ir::NodeId id : order) read_filter_copy(id);
    }
    for (const ir::NodeId id : order) read_copy(id);
    for (const ir::NodeId id : order) {
      if (ir::update_operands(graph_.node(id))) {
        update_copies(id);
      } else {
        refresh_copies(id);
      }
    }
    graph_.set_insertion_point(-1);
    if (!capabilities_.ohwi_filters) return;
    for (const ir::NodeId id : order) leave_filter_gradient(id);
  }

 private:
  /// A weight that a value is, or is a conversion of.
  struct Source {
    Variable weight;
    DType dtype;
  };

  [[nodiscard]] std::optional<Source> source_of(ir::ValueId value) const {
    const ir::Node& node = graph_.producer(value);
    const ir::Node& origin = node.op->name == "cast" ? graph_.producer(node.inputs[0]) : node;
    const DType dtype = graph_.type(value).dtype;
    if (origin.variable == nullptr || origin.variable->role != VariableRole::kWeight ||
        dtype == float64 || origin.variable->type.dtype == float64) {
      return std::nullopt;
    }
    return Source{origin.variable, dtype};
  }

  /// The value of the copy in this graph, or -1 if there is none.
  ir::ValueId find(const Source& source, bool transposed) {
    const Variable copy = trains_ ? source.weight->copy(source.dtype, transposed)
                                  : source.weight->find_copy(source.dtype, transposed);
    return copy == nullptr ? -1 : graph_.read_variable(copy);
  }

  /// A convolution reads its filter as the backend wants it.
  void read_filter_copy(ir::NodeId id) {
    constexpr std::size_t kFilter = 1;
    const ir::Node& node = graph_.node(id);
    if (node.op->name != "conv2d" && node.op->name != "conv2d_backward_input") return;
    const std::optional<Source> source = source_of(node.inputs[kFilter]);
    const ir::ValueId copy = source ? find(*source, true) : -1;
    if (copy < 0) return;
    auto attributes = node.attributes.as<Conv2DAttributes>();
    attributes.filter_layout = FilterLayout::kOhwi;
    graph_.node(id).attributes = attributes;
    graph_.node(id).inputs[kFilter] = copy;
  }

  /// What reads a conversion of a weight reads the copy.
  void read_copy(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.op->name != "cast" || !is_half(graph_.type(node.outputs[0]).dtype)) return;
    const std::vector<std::vector<ir::NodeId>> readers = graph_.readers();
    if (readers[static_cast<std::size_t>(node.outputs[0])].empty()) return;
    const std::optional<Source> source = source_of(node.outputs[0]);
    const ir::ValueId copy = source ? find(*source, false) : -1;
    if (copy >= 0) graph_.replace_uses(node.outputs[0], copy);
  }

  /// Lets an optimizer's update write a copy of each variable, the others are converted after it.
  void update_copies(ir::NodeId id) {
    const ir::Node node = graph_.node(id);
    const ir::UpdateOperands operands = *ir::update_operands(node);
    ops::UpdateAttributes common = ir::common_attributes(node);
    std::vector<ir::ValueId> inputs = node.inputs;
    std::set<const VariableState*> written;
    for (std::size_t i = 0; i < operands.variables; ++i) {
      const Variable weight = graph_.variable_of(node.inputs[operands.first_variable + i]);
      for (const WeightCopy& copy : weight->copies) {
        const Variable state = copy.state.lock();
        if (state == nullptr) continue;
        common.copies.push_back({.variable = i, .transposed = copy.transposed});
        inputs.push_back(graph_.read_variable(state));
        written.insert(state.get());
        break;
      }
    }
    const ir::NodeId updated = replace_update(id, std::move(inputs), std::move(common));
    refresh_copies(updated, written);
  }

  ir::NodeId replace_update(ir::NodeId id, std::vector<ir::ValueId> inputs,
                            ops::UpdateAttributes common) {
    const ir::Node node = graph_.node(id);
    graph_.set_insertion_point(id);
    const ir::ScopeGuard scope(graph_, node.scope);
    const ir::NodeId updated = graph_.add_node(*node.op, std::move(inputs),
                                               ir::with_common_attributes(node, std::move(common)));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      graph_.replace_uses(node.outputs[i], graph_.node(updated).outputs[i]);
    }
    graph_.erase(id);
    return updated;
  }

  /// Converts what a node has made of weights, unless a copy is among those already `written`.
  void refresh_copies(ir::NodeId id, const std::set<const VariableState*>& written = {}) {
    const ir::Node node = graph_.node(id);
    if (node.op->overwrites == nullptr) return;
    const auto place = std::find(graph_.order().begin(), graph_.order().end(), id);
    graph_.set_insertion_point(place + 1 == graph_.order().end() ? -1 : *(place + 1));
    const ir::ScopeGuard scope(graph_, node.scope);
    for (const ir::Overwrite& pair : node.op->overwrites(node)) {
      const ir::ValueId value = node.outputs[static_cast<std::size_t>(pair.output)];
      const Variable weight = graph_.variable_of(value);
      for (const WeightCopy& copy : weight->copies) {
        const Variable state = copy.state.lock();
        if (state == nullptr || written.count(state.get()) > 0) continue;
        SymbolicTensor fresh = ops::cast(graph_.tensor(value), copy.dtype);
        if (copy.transposed) fresh = innermost_first(fresh);
        const SymbolicTensor always = ir::emit_constant(fresh, 1, boolean);
        ops::assign(graph_.tensor(graph_.read_variable(state)), fresh, always);
      }
    }
  }

  static SymbolicTensor innermost_first(const SymbolicTensor& x) {
    std::vector<int> axes = {x.shape().rank() - 1};
    for (int axis = 0; axis + 1 < x.shape().rank(); ++axis) axes.push_back(axis);
    return ops::transpose(x, axes);
  }

  /// The gradient of a filter stays as the convolution's kernel makes it where all that read it can
  /// take that: the finite check, the norm, and updates.
  void leave_filter_gradient(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.op->name != "conv2d_backward_filter" || graph_.type(node.inputs[0]).dtype == float64) {
      return;
    }
    const ir::ValueId gradient = node.outputs[0];
    const std::vector<ir::NodeId> readers = graph_.readers()[static_cast<std::size_t>(gradient)];
    const bool any_order = std::all_of(readers.begin(), readers.end(), [&](ir::NodeId reader) {
      const ir::Node& other = graph_.node(reader);
      return other.op->name == "all_finite" || other.op->name == "clip_coefficients" ||
             ir::update_operands(other);
    });
    const bool is_output =
        std::any_of(graph_.outputs().begin(), graph_.outputs().end(),
                    [&](const ir::GraphOutput& output) { return output.value == gradient; });
    if (!any_order || is_output) return;
    auto attributes = node.attributes.as<Conv2DAttributes>();
    attributes.filter_layout = FilterLayout::kOhwi;
    graph_.node(id).attributes = attributes;
    graph_.reinfer(id);
    for (const ir::NodeId reader : readers) mark_transposed(reader, gradient);
  }

  void mark_transposed(ir::NodeId id, ir::ValueId gradient) {
    const std::optional<ir::UpdateOperands> operands = ir::update_operands(graph_.node(id));
    if (!operands) return;
    ir::Node& node = graph_.node(id);
    ops::UpdateAttributes common = ir::common_attributes(node);
    common.transposed_gradients.resize(operands->variables, false);
    for (std::size_t i = 0; i < operands->variables; ++i) {
      if (node.inputs[operands->first_gradient + i] == gradient) {
        common.transposed_gradients[i] = true;
      }
    }
    node.attributes = ir::with_common_attributes(node, std::move(common));
  }

  ir::Graph& graph_;
  const Capabilities& capabilities_;
  bool trains_ = false;
};

}  // namespace

void keep_weight_copies(ir::Graph& graph, const Capabilities& capabilities) {
  if (!capabilities.weight_copies) return;
  KeepWeightCopies(graph, capabilities).run();
  graph.erase_dead();
}

}  // namespace demi::passes
