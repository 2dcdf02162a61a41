// Replay of a step as one CUDA graph.
#pragma once

#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/context.h"

namespace demi::cuda {

/// Runs the launches one by one twice, captures them at the third run, and replays the graph from
/// then on.
[[nodiscard]] std::unique_ptr<LaunchSequence> make_sequence(std::shared_ptr<Context> context,
                                                            std::vector<Launch> launches);

}  // namespace demi::cuda
