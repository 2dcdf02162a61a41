#include <demi/layers/input.h>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/layers/building_graph.h"
#include "src/layers/layer_state.h"

namespace demi {

SymbolicTensor Input(const Shape& shape, const InputOptions& options) {
  if (!shape.is_known()) {
    internal::fail_argument("input",
                            fmt::format("expected the shape of one sample, without a batch "
                                        "extent. Received: {}.",
                                        shape.to_string()));
  }
  internal::check_name(options.name, "input");
  const std::shared_ptr<BuildingGraph> graph = BuildingGraph::of_this_thread();
  const std::string name =
      options.name.empty() ? internal::unique_name("input_layer") : options.name;
  return graph->tensor(graph->add_input(name, {shape.with_front(Shape::kUnknown), options.dtype}));
}

}  // namespace demi
