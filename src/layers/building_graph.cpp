#include "src/layers/building_graph.h"

#include <utility>

#include "src/core/variable_state.h"

namespace demi {

BuildingGraph::BuildingGraph() {
  randomness.counter =
      make_variable_state("step", Tensor::scalar(std::int64_t{0}), VariableRole::kStepState, false);
}

std::shared_ptr<BuildingGraph> BuildingGraph::of_this_thread() {
  thread_local std::weak_ptr<BuildingGraph> current;
  std::shared_ptr<BuildingGraph> graph = current.lock();
  if (graph == nullptr) {
    graph = std::make_shared<BuildingGraph>();
    current = graph;
  }
  return graph;
}

std::shared_ptr<BuildingGraph> BuildingGraph::of(const SymbolicTensor& tensor) {
  return std::dynamic_pointer_cast<BuildingGraph>(tensor.graph());
}

void BuildingGraph::record(LayerCall call) {
  for (const ir::ValueId value : call.outputs) call_of_[value] = calls_.size();
  calls_.push_back(std::move(call));
}

const BuildingGraph::LayerCall* BuildingGraph::call_of(ir::ValueId value) const {
  const auto found = call_of_.find(value);
  return found == call_of_.end() ? nullptr : &calls_[found->second];
}

}  // namespace demi
