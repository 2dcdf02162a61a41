#include <demi/ops/cross_entropy.h>
#include <demi/ops/softmax.h>

#include "src/passes/passes.h"

namespace demi::passes {
namespace {

/// The softmax whose result `value` is, looking through markers and casts; null if there is none.
const ir::Node* softmax_behind(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* node = &graph.producer(value);
  while (node->op->name == "layer_output" || node->op->name == "cast") {
    node = &graph.producer(node->inputs[0]);
  }
  return node->op->name == "softmax" ? node : nullptr;
}

}  // namespace

void use_logits(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    ir::Node& node = graph.node(id);
    if (node.op->name != "sparse_cross_entropy" && node.op->name != "cross_entropy") continue;
    if (node.attributes.as<ops::CrossEntropyAttributes>().from_logits) continue;
    const ir::Node* softmax = softmax_behind(graph, node.inputs[0]);
    if (softmax == nullptr) continue;
    const ir::ValueId logits = softmax->inputs[0];
    const int axis = softmax->attributes.as<ops::SoftmaxAttributes>().axis;
    if (axis != -1 && axis != graph.type(logits).shape.rank() - 1) continue;
    node.inputs[0] = logits;
    node.attributes = ops::CrossEntropyAttributes{.from_logits = true};
  }
}

}  // namespace demi::passes
