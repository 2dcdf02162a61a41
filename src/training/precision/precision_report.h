// From ranges to advice.
#pragma once

#include <demi/callbacks/precision_monitor.h>

#include "src/training/precision/layer_ranges.h"

namespace demi::internal {

/// The report on `ranges` of `looks` looks, the last at `last_step` under `loss_scale`.
[[nodiscard]] PrecisionReport make_report(const LayerRanges& ranges, std::int64_t looks,
                                          std::int64_t last_step, double loss_scale);

}  // namespace demi::internal
