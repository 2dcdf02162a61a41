#include <demi/ops/cross_entropy.h>
#include <demi/ops/softmax.h>

#include "src/passes/passes.h"

namespace demi::passes {
namespace {

/// The node that computes `value`, looking through markers and casts.
const ir::Node& source(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* node = &graph.producer(value);
  while (node->op->name == "layer_output" || node->op->name == "cast") {
    node = &graph.producer(node->inputs[0]);
  }
  return *node;
}

/// Whether `node` turns logits into the probabilities that `loss` expects.
bool makes_probabilities(const ir::Graph& graph, const ir::Node& node, const ir::Node& loss) {
  if (loss.op->name == "binary_cross_entropy") return node.op->name == "sigmoid";
  if (loss.op->name != "sparse_cross_entropy" && loss.op->name != "cross_entropy") return false;
  if (node.op->name != "softmax") return false;
  const int axis = node.attributes.as<ops::SoftmaxAttributes>().axis;
  return axis == -1 || axis == graph.type(node.inputs[0]).shape.rank() - 1;
}

}  // namespace

void use_logits(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    ir::Node& node = graph.node(id);
    if (!node.attributes.holds<ops::CrossEntropyAttributes>()) continue;
    if (node.attributes.as<ops::CrossEntropyAttributes>().from_logits) continue;
    const ir::Node& activation = source(graph, node.inputs[0]);
    if (!makes_probabilities(graph, activation, node)) continue;
    node.inputs[0] = activation.inputs[0];
    node.attributes = ops::CrossEntropyAttributes{.from_logits = true};
  }
}

}  // namespace demi::passes
