// How reports about memory write bytes.
#pragma once

#include <cstddef>
#include <string>

#include <demi/memory.h>

namespace demi::internal {

/// "1.50 KiB", "37.25 MiB".
[[nodiscard]] std::string format_bytes(std::size_t bytes);

/// The same number with the unit as Keras writes it, "1.50 KB": for the lines of summary() that are
/// Keras' own.
[[nodiscard]] std::string format_bytes_as_keras(std::size_t bytes);

/// "training", "evaluation", "prediction".
[[nodiscard]] const char* step_name(StepMode mode);

}  // namespace demi::internal
