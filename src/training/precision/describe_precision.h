// From a plan to what users read about its precision.
#pragma once

#include <demi/precision.h>

#include "src/plan/plan.h"

namespace demi::internal {

/// Every step of the plan; estimates of time where the backend knows its peaks. Policy and batch
/// size are left to the caller.
[[nodiscard]] PrecisionPlan describe_precision(const plan::Plan& plan, const Backend& backend);

/// What to change, the weightiest first.
[[nodiscard]] std::vector<std::string> precision_hints(const PrecisionPlan& precision,
                                                       const plan::Plan& plan,
                                                       const std::optional<DevicePeaks>& peaks);

/// Whether cuDNN or cuBLASLt computes it, which choose between engines with and without tensor
/// cores.
[[nodiscard]] bool is_of_library(const OpPrecision& op);

/// An extent of a product in 16 bits that is no multiple of 8, "1 input channel", or "".
[[nodiscard]] std::string odd_extent(const ir::Graph& graph, const ir::Node& node);

/// Operations of a product per second on such a device; 0 for a dtype it has no tensor cores for.
[[nodiscard]] double tensor_core_flops(const DevicePeaks& peaks, DType dtype);

}  // namespace demi::internal
