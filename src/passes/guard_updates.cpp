#include "src/ir/builtin_ops.h"
#include "src/passes/passes.h"

namespace demi::passes {

void guard_updates(ir::Graph& graph, const SymbolicTensor& finite) {
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    ir::Node& node = graph.node(id);
    if (node.op->name != "moving_average") continue;
    constexpr std::size_t kApply = 2;  // moving_average(running, value, apply)
    if (graph.producer(node.inputs[kApply]).op->name != "constant") continue;
    node.inputs[kApply] = finite.value();
    node.scope.phase = ir::Phase::kUpdate;
    graph.move(id, -1);
  }
}

}  // namespace demi::passes
