#include <demi/ops/cast.h>
#include <demi/ops/cross_entropy.h>

#include "src/ir/builtin_ops.h"
#include "src/passes/passes.h"

namespace demi::passes {
namespace {

/// Lets every reader of `value`, which stays in 16 bits, read it as float32. New nodes go before
/// `next`.
void widen_source(ir::Graph& graph, ir::ValueId value, ir::NodeId next) {
  graph.set_insertion_point(next);
  const ir::ValueId wide = ops::cast(graph.tensor(value), DType::kFloat32).value();
  graph.replace_uses(value, wide);
  graph.node(graph.value(wide).producer).inputs[0] = value;
}

void widen_attributes(ir::Node& node) {
  if (node.op->name == "cast") node.attributes = ops::CastAttributes{DType::kFloat32};
  if (node.op->name == "mean_sparse_cross_entropy") {
    auto loss = node.attributes.as<ops::MeanSparseCrossEntropyAttributes>();
    loss.gradient_dtype = DType::kFloat32;
    node.attributes = loss;
  }
  if (node.op->name != "constant") return;
  auto constant = node.attributes.as<ir::ConstantAttributes>();
  constant.dtype = DType::kFloat32;
  node.attributes = constant;
}

}  // namespace

std::map<ir::ValueId, DType> widen(ir::Graph& graph) {
  std::map<ir::ValueId, DType> narrow;
  const std::vector<ir::NodeId> order = graph.order();
  for (std::size_t i = 0; i < order.size(); ++i) {
    ir::Node& node = graph.node(order[i]);
    bool is_narrow = false;
    for (const ir::ValueId output : node.outputs) {
      if (!is_half(graph.type(output).dtype)) continue;
      is_narrow = true;
      narrow[output] = graph.type(output).dtype;
    }
    if (!is_narrow) continue;
    if (node.op->infer == nullptr) {
      narrow.erase(node.outputs[0]);
      widen_source(graph, node.outputs[0], i + 1 < order.size() ? order[i + 1] : -1);
    } else if (node.op->overwrites == nullptr) {
      widen_attributes(node);
      graph.reinfer(order[i]);
    }
  }
  graph.set_insertion_point(-1);
  return narrow;
}

}  // namespace demi::passes
