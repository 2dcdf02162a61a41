// The parts of the fuse pass that have files of their own.
#pragma once

#include "kernels/backend.h"
#include "src/ir/graph.h"

namespace demi::passes {

/// Makes one op of a mean sparse cross-entropy of logits, the accuracy of the same predictions, and
/// the gradient, as far as they are there: mean_sparse_cross_entropy.
void fuse_cross_entropy(ir::Graph& graph);

/// Lets max-poolings give no index where none is read or, if the backend takes their gradients from
/// the image rather, where only those read it.
void pool_without_index(ir::Graph& graph, const Capabilities& capabilities);

/// Lets kernels that write a gradient of a layer's output also mask it with the layer's relu and
/// sum it up for the bias: max_pool2d_backward and matmul.
void fuse_gradients(ir::Graph& graph, const Capabilities& capabilities);

}  // namespace demi::passes
