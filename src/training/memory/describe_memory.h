// From a plan to what users read about its memory.
#pragma once

#include <demi/memory.h>
#include <demi/optimizers/optimizer.h>

#include "src/layers/layer_graph.h"
#include "src/training/compile.h"

namespace demi::internal {

/// The memory of a compiled step; `optimizer` is null for steps that do not train.
[[nodiscard]] PlannedBytes planned_bytes(const LayerGraph& model, const plan::Plan& plan,
                                         const Optimizer* optimizer);

/// The same in full. `device` is the name of the backend that it was planned for.
[[nodiscard]] MemoryPlan describe_memory(const LayerGraph& model, const StepSpec& spec,
                                         const plan::Plan& plan, const Optimizer* optimizer,
                                         const std::string& device);

}  // namespace demi::internal
