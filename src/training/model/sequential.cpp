#include <algorithm>

#include <fmt/format.h>

#include <demi/layers/input.h>
#include <demi/model.h>

#include "src/core/check.h"
#include "src/layers/building_graph.h"
#include "src/layers/layer_state.h"
#include "src/training/model_impl.h"

namespace demi {
namespace {

constexpr const char* kWhere = "sequential";

/// The node of a value made by demi::Input. Throws for any other.
const ir::Node& input_node(const SymbolicTensor& value) {
  const auto graph = BuildingGraph::of(value);
  if (graph == nullptr || graph->producer(value.value()).op->name != "input") {
    internal::fail_argument(
        kWhere, "expected layers, or the value of demi::Input. Received: another value.");
  }
  return graph->producer(value.value());
}

}  // namespace

void ModelImpl::build_sequence() {
  if (sequence.empty()) {
    internal::fail_argument(kWhere, "expected at least one layer. Received: none.");
  }
  const SymbolicTensor input =
      Input(sequence_input->shape.without_front(), {input_name, sequence_input->dtype});
  SymbolicTensor value = input;
  for (const auto& layer : sequence) value = (*layer)(value);
  LayerGraph graph = extract_layer_graph({input}, {value});
  trainer.reset();
  layer_graph = std::move(graph);
}

void ModelImpl::ensure_built(const std::vector<TensorType>& inputs) {
  if (layer_graph) return;
  if (inputs.size() != 1 || inputs[0].shape.rank() < 1) {
    internal::fail_argument(
        kWhere, fmt::format("expected one input [N, ...]. Received: {} inputs.", inputs.size()));
  }
  const std::optional<TensorType> given = sequence_input;
  sequence_input = inputs[0];
  sequence_input->shape.set(0, Shape::kUnknown);
  if (input_name.empty()) input_name = internal::unique_name("input_layer");
  try {
    build_sequence();
  } catch (...) {
    sequence_input = given;
    throw;
  }
}

void ModelImpl::add(const SequentialItem& item) {
  if (item.layer() == nullptr) {
    const ir::Node& node = input_node(item.input());
    if (sequence_input || !sequence.empty()) {
      internal::fail_argument(
          kWhere, fmt::format("expected an Input only as the first item. Received: '{}' after {}.",
                              node.name, sequence_input ? "an Input" : "a layer"));
    }
    sequence_input = {item.input().shape(), item.input().dtype()};
    input_name = node.name;
    return;
  }
  for (const auto& layer : sequence) {
    if (layer->name() != item.layer()->name()) continue;
    internal::fail_argument(
        kWhere,
        fmt::format("expected layers with different names. Received: '{}' twice.", layer->name()));
  }
  sequence.push_back(item.layer());
}

Sequential::Sequential(std::initializer_list<SequentialItem> items, const ModelOptions& options)
    : Model(std::make_shared<ModelImpl>()) {
  impl_->is_sequential = true;
  for (const SequentialItem& item : items) impl_->add(item);
  if (impl_->sequence_input && !impl_->sequence.empty()) impl_->build_sequence();
  impl_->name = options.name.empty() ? internal::unique_name("sequential") : options.name;
}

void Sequential::add(const SequentialItem& item) {
  impl_->add(item);
  if (!impl_->sequence_input || impl_->sequence.empty()) return;
  try {
    impl_->build_sequence();
  } catch (...) {
    impl_->sequence.pop_back();
    throw;
  }
}

void Sequential::build(const Shape& input_shape) {
  if (!impl_->layer_graph) {
    const DType dtype = impl_->sequence_input ? impl_->sequence_input->dtype : float32;
    impl_->ensure_built({{input_shape, dtype}});
    return;
  }
  Shape shape = input_shape;
  if (shape.rank() > 0) shape.set(0, Shape::kUnknown);
  if (shape == impl_->sequence_input->shape) return;
  internal::fail_argument(kWhere,
                          fmt::format("expected the input shape {} that it is built for. "
                                      "Received: {}.",
                                      impl_->sequence_input->shape.to_string(), shape.to_string()));
}

}  // namespace demi
