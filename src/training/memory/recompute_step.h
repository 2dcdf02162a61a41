// CompileOptions::recompute, applied to a step.
#pragma once

#include "src/layers/layer_graph.h"
#include "src/training/compile.h"

namespace demi::internal {

/// Throws std::invalid_argument "[compile] …", with a suggestion, if `recompute` names a layer that
/// `model` does not have.
void check_recompute(const LayerGraph& model, const Recompute& recompute);

/// Lets the backward half of a training step, complete but for this, compute again what
/// `training.recompute` asks for.
void apply_recompute(const std::shared_ptr<ir::Graph>& graph, const LayerGraph& model,
                     const TrainingSpec& training, Backend& backend);

/// What such a step computes again and at what cost.
[[nodiscard]] RecomputedWork describe_recomputed(const ir::Graph& graph);

}  // namespace demi::internal
