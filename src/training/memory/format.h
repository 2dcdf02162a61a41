// How reports about memory write bytes.
#pragma once

#include <cstddef>
#include <string>

namespace demi::internal {

/// "1.50 KB", "37.25 MB": units of 1024 as in the summary.
[[nodiscard]] std::string format_bytes(std::size_t bytes);

}  // namespace demi::internal
