#include <algorithm>

#include <demi/ops/pooling.h>

#include "src/passes/fusions.h"

namespace demi::passes {
namespace {

using ops::Pool2DAttributes;

/// Whether only max_pool2d_backward reads the index of a pooling.
bool only_gradients_read(const ir::Graph& graph, const std::vector<ir::NodeId>& readers) {
  return std::all_of(readers.begin(), readers.end(), [&](ir::NodeId reader) {
    const ir::Node& node = graph.node(reader);
    return node.op->name == "max_pool2d_backward" && !node.attributes.as<Pool2DAttributes>().relu;
  });
}

}  // namespace

void pool_without_index(ir::Graph& graph, const Capabilities& capabilities) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    const ir::Node pool = graph.node(id);
    if (pool.op->name != "max_pool2d" || pool.outputs.size() != 2) continue;
    const ir::ValueId index = pool.outputs[1];
    const std::vector<ir::NodeId> readers = graph.readers()[static_cast<std::size_t>(index)];
    const bool is_result =
        std::any_of(graph.outputs().begin(), graph.outputs().end(),
                    [&](const ir::GraphOutput& output) { return output.value == index; });
    auto attributes = pool.attributes.as<Pool2DAttributes>();
    const bool from_image = capabilities.max_pool_gradient_from_image && !attributes.relu &&
                            only_gradients_read(graph, readers);
    if (is_result || !(readers.empty() || from_image)) continue;
    attributes.from_image = true;
    graph.replace_node(id, *pool.op, pool.inputs, attributes, {pool.outputs[0]});
    for (const ir::NodeId reader : readers) {
      const ir::Node backward = graph.node(reader);
      auto of_gradient = backward.attributes.as<Pool2DAttributes>();
      of_gradient.from_image = true;
      graph.replace_node(reader, *backward.op,
                         {backward.inputs[0], pool.inputs[0], pool.outputs[0]}, of_gradient,
                         backward.outputs);
    }
  }
}

}  // namespace demi::passes
