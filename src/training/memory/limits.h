// What a model may take of a device.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/backend.h"

namespace demi::internal {

struct MemoryLimit {
  std::size_t bytes = 0;
  std::string origin;  ///< "the limit given to compile", for messages
};

/// The least of: what compile() was given (0: nothing), what memory::configure allows, and what the
/// device has besides context and libraries.
[[nodiscard]] MemoryLimit memory_limit(const Backend& backend, std::size_t asked);

/// What context and libraries take of a device, estimated: usual are 0.3 GB, with lazily loaded
/// kernels, to 0.7 GB. 0 for the CPU.
[[nodiscard]] std::size_t estimated_overhead(const std::string& device);

}  // namespace demi::internal
