// What the report shows besides the runs: the plan of a step, and what float16 makes of its values.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "models/training_run.h"

namespace demi::benchmarks {

/// {"calls", "timeline"} of a training step under the options' policy: members of PlannedCall and
/// MemoryMoment.
[[nodiscard]] nlohmann::json plan_to_json(const models::RunOptions& options, const Dataset& train);

/// Engine, tensor cores and dtypes of every operation of that step, as text.
[[nodiscard]] std::string precision_table(const models::RunOptions& options, const Dataset& train);

/// Trains for at most 100 steps with a PrecisionMonitor that looks at five of them; its report
/// under the names of its members.
[[nodiscard]] nlohmann::json precision_to_json(const models::RunOptions& options,
                                               const Dataset& train);

}  // namespace demi::benchmarks
