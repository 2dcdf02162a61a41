// A training run in a process of its own, so that runs do not share peak memory, and none inherits
// warm caches of the allocator.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/training_run.h"

namespace demi::benchmarks {

/// Forks, trains in the child, and returns what models::to_json gives there. `started` of the
/// options becomes the time of the fork. Must be called while the process has no other thread.
/// Throws std::runtime_error with the child's message if it fails, or how it ended if it crashes.
[[nodiscard]] nlohmann::json isolated_run(models::RunOptions options, const Dataset& train,
                                          const Dataset& test);

}  // namespace demi::benchmarks
