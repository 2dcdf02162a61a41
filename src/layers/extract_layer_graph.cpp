// From the recorded calls of a BuildingGraph to the LayerGraph between some of its values.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/core/check.h"
#include "src/layers/building_graph.h"
#include "src/layers/layer_graph.h"

namespace demi {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  internal::fail_argument("model", message);
}

class Extraction {
 public:
  Extraction(const std::vector<SymbolicTensor>& inputs, const std::vector<SymbolicTensor>& outputs)
      : graph_(common_graph(inputs, outputs)) {
    for (const SymbolicTensor& input : inputs) add_input(input.value());
    for (const SymbolicTensor& output : outputs) require(output.value());
    while (!pending_.empty()) {
      const ir::ValueId value = pending_.back();
      pending_.pop_back();
      visit(value);
    }
    for (const auto& [place, call] : calls_) add_call(call);
    for (const SymbolicTensor& output : outputs) {
      result_.outputs.push_back({producer_name(output.value()), index_of(output.value())});
    }
    check_inputs();
    check_names();
  }

  LayerGraph take() { return std::move(result_); }

 private:
  /// A recorded layer call, or the node of an op.
  struct Source {
    const BuildingGraph::LayerCall* layer_call = nullptr;
    ir::NodeId node = -1;
  };

  static std::shared_ptr<BuildingGraph> common_graph(const std::vector<SymbolicTensor>& inputs,
                                                     const std::vector<SymbolicTensor>& outputs) {
    if (inputs.empty() || outputs.empty()) {
      refuse(fmt::format("expected inputs and outputs. Received: {} inputs and {} outputs.",
                         inputs.size(), outputs.size()));
    }
    const std::shared_ptr<BuildingGraph> graph = BuildingGraph::of(inputs[0]);
    for (const auto* values : {&inputs, &outputs}) {
      for (const SymbolicTensor& value : *values) {
        if (graph != nullptr && BuildingGraph::of(value) == graph) continue;
        refuse(
            "expected inputs and outputs that are connected. Received: values that were not made "
            "together from demi::Input (on one thread).");
      }
    }
    return graph;
  }

  [[nodiscard]] bool is_input_node(ir::ValueId value) const {
    return graph_->producer(value).op->name == "input";
  }

  [[nodiscard]] std::string producer_name(ir::ValueId value) const {
    if (const auto* call = graph_->call_of(value)) return call->layer->name();
    const ir::Node& node = graph_->producer(value);
    return is_input_node(value) ? node.name : node.op->name;
  }

  /// A model may also begin at the result of a layer.
  [[nodiscard]] std::string input_name(ir::ValueId value) const {
    if (is_input_node(value)) return producer_name(value);
    const std::string name = producer_name(value) + "_output";
    const auto* call = graph_->call_of(value);
    if (call == nullptr || call->outputs[0] == value) return name;
    const auto place = std::find(call->outputs.begin(), call->outputs.end(), value);
    return name + "_" + std::to_string(place - call->outputs.begin());
  }

  int index_of(ir::ValueId value) {
    const auto [entry, added] = index_.try_emplace(value, static_cast<int>(result_.values.size()));
    if (added) result_.values.push_back(graph_->type(value));
    return entry->second;
  }

  void add_input(ir::ValueId value) {
    if (!inputs_.insert(value).second) {
      refuse(fmt::format("expected different inputs. Received: '{}' twice.", input_name(value)));
    }
    result_.inputs.push_back({input_name(value), index_of(value)});
  }

  void require(ir::ValueId value) {
    if (required_.insert(value).second) pending_.push_back(value);
  }

  void visit(ir::ValueId value) {
    if (inputs_.count(value) > 0) return;
    if (is_input_node(value)) {
      std::vector<std::string> names;
      for (const LayerGraph::Input& input : result_.inputs) names.push_back(input.name);
      refuse(
          fmt::format("expected the outputs to depend on the inputs [{}] alone. Received: an "
                      "output that also depends on '{}'.",
                      fmt::join(names, ", "), producer_name(value)));
    }
    const BuildingGraph::LayerCall* call = graph_->call_of(value);
    const ir::ValueId first = call != nullptr ? call->outputs[0] : value;
    const ir::NodeId place = graph_->value(first).producer;
    if (!calls_.emplace(place, Source{call, place}).second) return;
    for (const ir::ValueId input : call != nullptr ? call->inputs : graph_->node(place).inputs) {
      require(input);
    }
  }

  void add_call(const Source& source) {
    LayerGraph::Call call;
    const ir::Node& node = graph_->node(source.node);
    const bool is_layer = source.layer_call != nullptr;
    if (is_layer) {
      call.layer = source.layer_call->layer;
      add_layer(call.layer);
    } else {
      call.op = node.op;
      call.attributes = node.attributes;
    }
    for (const ir::ValueId input : is_layer ? source.layer_call->inputs : node.inputs) {
      call.inputs.push_back(index_of(input));
    }
    for (const ir::ValueId output : is_layer ? source.layer_call->outputs : node.outputs) {
      call.outputs.push_back(index_of(output));
    }
    result_.calls.push_back(std::move(call));
  }

  void add_layer(const std::shared_ptr<Layer>& layer) {
    const auto known =
        std::any_of(result_.layers.begin(), result_.layers.end(),
                    [&](const auto& other) { return other->state() == layer->state(); });
    if (!known) result_.layers.push_back(layer);
  }

  void check_inputs() const {
    for (const ir::ValueId input : inputs_) {
      if (required_.count(input) > 0) continue;
      refuse(
          fmt::format("expected every input to lead to an output. Received: '{}', which leads to "
                      "none.",
                      input_name(input)));
    }
  }

  void check_names() const {
    std::set<std::string> names;
    const auto add = [&](const std::string& name) {
      if (names.insert(name).second) return;
      refuse(
          fmt::format("expected layers and inputs to have different names. Received: '{}' for two "
                      "of them.",
                      name));
    };
    for (const auto& input : result_.inputs) add(input.name);
    for (const auto& layer : result_.layers) add(layer->name());
  }

  std::shared_ptr<BuildingGraph> graph_;
  LayerGraph result_;
  std::map<ir::ValueId, int> index_;
  std::set<ir::ValueId> inputs_;
  std::set<ir::ValueId> required_;
  std::vector<ir::ValueId> pending_;
  /// By the node that computes the first result: the order of creation, which is topological.
  std::map<ir::NodeId, Source> calls_;
};

}  // namespace

LayerGraph extract_layer_graph(const std::vector<SymbolicTensor>& inputs,
                               const std::vector<SymbolicTensor>& outputs) {
  return Extraction(inputs, outputs).take();
}

}  // namespace demi
