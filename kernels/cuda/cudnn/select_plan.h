// The choice among cuDNN's engines.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/context.h"
#include "kernels/cuda/cudnn/plan.h"

namespace demi::cuda::cudnn {

/// A graph to be planned.
struct PlanRequest {
  std::shared_ptr<const Graph> graph;  ///< finalized
  bool sixteen_bit = false;            ///< the data are float16 or bfloat16
  /// Names the graph among all graphs: its operations, extents, dtypes.
  std::string key;
};

/// The plan for a graph, or nothing, and in `reason` how many engines there were and why none is
/// used. Note [Engines]:
///
/// Candidates come in the order of cuDNN's heuristics (mode A, then its fallback list). Left out
/// are engines that are compiled at run time (a quarter of a second to seconds each, and NVRTC),
/// that convert operands down or reduce in less than float32, Winograd and Fourier transforms of
/// 16-bit data, those whose result depends on timing (Options::deterministic), tensor cores for
/// float32 (TF32 has 10 bits) unless Options::allow_tf32, and plans over Options::workspace_limit.
/// Where there is a device and Options::autotune, the first 8 that remain are timed and the choice
/// is kept (Context::tuned_engines); otherwise the first is taken.
[[nodiscard]] std::optional<Plan> select_plan(Context& context, const PlanRequest& request,
                                              std::string& reason);

}  // namespace demi::cuda::cudnn
