// A plan as the graph that TensorBoard draws.
#pragma once

#include "src/io/event.pb.h"
#include "src/plan/plan.h"

namespace demi::internal {

/// A node for each variable, feed and step, grouped by layer; what is backward stands under
/// "gradients", what is neither in a layer nor backward under "losses" and "update". Attributes:
/// "kernel", "dtype" and "_output_shapes".
[[nodiscard]] events::GraphDef graph_def_of(const plan::Plan& plan, const std::string& device);

}  // namespace demi::internal
