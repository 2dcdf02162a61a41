#include "src/training/tensorboard/graph_def.h"

#include <map>

namespace demi::internal {
namespace {

events::DataType data_type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return events::DT_FLOAT;
    case DType::kFloat64:
      return events::DT_DOUBLE;
    case DType::kFloat16:
      return events::DT_HALF;
    case DType::kBFloat16:
      return events::DT_BFLOAT16;
    case DType::kInt32:
      return events::DT_INT32;
    case DType::kInt64:
      return events::DT_INT64;
    case DType::kUint8:
      return events::DT_UINT8;
    case DType::kBool:
      return events::DT_BOOL;
  }
  return events::DT_INVALID;
}

std::string folder_of(const ir::Scope& scope) {
  const bool outside = scope.layer.empty();
  switch (scope.phase) {
    case ir::Phase::kForward:
      return outside ? "losses/" : scope.layer + "/";
    case ir::Phase::kBackward:
      return "gradients/" + (outside ? "losses" : scope.layer) + "/";
    case ir::Phase::kUpdate:
      return "update/";
  }
  return "";
}

/// Names are unique: they end in the number of the node.
std::string name_of(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (node.variable) return node.variable->name + "_" + std::to_string(id);
  if (node.op->name == "input") return "inputs/" + node.name + "_" + std::to_string(id);
  return folder_of(node.scope) + node.op->name + "_" + std::to_string(id);
}

void describe_outputs(const ir::Graph& graph, const ir::Node& node, events::NodeDef& written) {
  if (node.outputs.empty()) return;
  auto& attributes = *written.mutable_attr();
  attributes["dtype"].set_type(data_type_of(graph.type(node.outputs[0]).dtype));
  for (const ir::ValueId output : node.outputs) {
    events::Shape& shape = *attributes["_output_shapes"].mutable_list()->add_shape();
    for (const std::int64_t extent : graph.type(output).shape.dims()) {
      shape.add_dim()->set_size(extent);
    }
  }
}

}  // namespace

events::GraphDef graph_def_of(const plan::Plan& plan, const std::string& device) {
  const ir::Graph& graph = *plan.graph;
  std::map<ir::NodeId, const Kernel*> kernels;
  for (const plan::Step& step : plan.steps) kernels[step.node] = step.kernel.get();
  events::GraphDef result;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    events::NodeDef& written = *result.add_node();
    written.set_name(name_of(graph, id));
    written.set_op(node.op->name);
    written.set_device(device);
    for (const ir::ValueId input : node.inputs) {
      const ir::Value& value = graph.value(input);
      std::string name = name_of(graph, value.producer);
      if (value.output > 0) name += ":" + std::to_string(value.output);
      written.add_input(name);
    }
    const auto kernel = kernels.find(id);
    if (kernel != kernels.end()) {
      (*written.mutable_attr())["kernel"].set_s(kernel->second->description());
    }
    describe_outputs(graph, node, written);
  }
  result.mutable_versions()->set_producer(22);
  return result;
}

}  // namespace demi::internal
