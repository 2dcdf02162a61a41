// The profile of a step for trace viewers.
#pragma once

#include <string>
#include <vector>

#include "src/runtime/executor.h"

namespace demi::internal {

/// A step as JSON in Chrome's trace event format (chrome://tracing, ui.perfetto.dev): complete
/// events, in microseconds, of every kernel on the track of its half of the step, with layer,
/// kernel and types as arguments; and a counter of the live bytes of the arena by category at each.
/// `times` are those of plan.steps.
[[nodiscard]] std::string step_trace(const plan::Plan& plan,
                                     const std::vector<runtime::StepTime>& times,
                                     const std::string& device);

}  // namespace demi::internal
