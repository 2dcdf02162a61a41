// Monitor: whether a logged value has become better.
#pragma once

#include <optional>
#include <string>

#include <demi/callbacks.h>

namespace demi::internal {

/// Whether larger values of `name` are better under `mode`.
[[nodiscard]] bool larger_is_better(const std::string& name, MonitorMode mode);

/// Whether `value` is better than `best` by more than `min_delta`; a NaN never is, and anything
/// else is better than a `best` that is NaN.
[[nodiscard]] bool improves(double value, double best, double min_delta, bool larger);

}  // namespace demi::internal
