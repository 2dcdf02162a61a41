// Tracing: from layers to IR.
#pragma once

#include <vector>

#include <demi/layer.h>
#include <demi/symbolic_tensor.h>

#include "src/layers/layer_graph.h"

namespace demi {

struct TracedModel {
  /// One per model output, float32 (or float64, or integers).
  std::vector<SymbolicTensor> outputs;
  /// Scalars to be added to the loss: weight penalties and what layers asked for with add_loss.
  std::vector<SymbolicTensor> losses;
};

/// Calls every layer of `layers` again on `inputs`, values of one graph with the shapes of this
/// compilation, and so writes the forward half of a step into that graph. Floating values have the
/// variable dtypes until the autocast pass; what layers return is marked "layer_output" for it.
/// Random layers read graph.randomness. Throws std::invalid_argument if number, rank or extents of
/// the inputs are not those of the model.
[[nodiscard]] TracedModel trace_model(const LayerGraph& layers,
                                      const std::vector<SymbolicTensor>& inputs,
                                      const CallContext& context);

}  // namespace demi
