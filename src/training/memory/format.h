// How reports about memory write bytes.
#pragma once

#include <cstddef>
#include <string>

#include <demi/memory.h>

namespace demi::internal {

/// "1.50 KB", "37.25 MB": units of 1024 as in the summary.
[[nodiscard]] std::string format_bytes(std::size_t bytes);

/// "training", "evaluation", "prediction".
[[nodiscard]] const char* step_name(StepMode mode);

}  // namespace demi::internal
