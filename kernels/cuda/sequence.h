// Replay of a step as one CUDA graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/context.h"

namespace demi::cuda {

/// Runs the launches one by one twice, captures them at the third run, and replays the graph from
/// then on. Small operations are joined to launches beside them (scalars.h). `device` names the
/// context's device.
[[nodiscard]] std::unique_ptr<LaunchSequence> make_sequence(std::shared_ptr<Context> context,
                                                            const std::string& device,
                                                            std::vector<Launch> launches);

}  // namespace demi::cuda
