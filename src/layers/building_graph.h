// BuildingGraph: where functional models are written down, with unknown batch extents.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <demi/layer.h>

#include "src/ir/graph.h"

namespace demi {

/// A graph that remembers which of its values are results of layers. Layers are called in it only
/// to find shapes and create variables; a Model takes the calls out and makes them again in the
/// graphs that are compiled.
class BuildingGraph : public ir::Graph {
 public:
  struct LayerCall {
    std::shared_ptr<Layer> layer;
    std::vector<ir::ValueId> inputs;
    std::vector<ir::ValueId> outputs;  ///< of no other call
  };

  BuildingGraph();

  /// The graph of all values built on this thread as long as one of them lives.
  [[nodiscard]] static std::shared_ptr<BuildingGraph> of_this_thread();
  /// The graph `tensor` is of; null if it is none of this kind, or `tensor` is empty.
  [[nodiscard]] static std::shared_ptr<BuildingGraph> of(const SymbolicTensor& tensor);

  void record(LayerCall call);
  /// The call that `value` is a result of; null if an op made it or it is an input.
  [[nodiscard]] const LayerCall* call_of(ir::ValueId value) const;

 private:
  std::vector<LayerCall> calls_;
  std::map<ir::ValueId, std::size_t> call_of_;
};

}  // namespace demi
