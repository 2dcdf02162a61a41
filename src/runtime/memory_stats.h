// memory::Stats of a device that is at hand.
#pragma once

#include <demi/memory.h>

#include "kernels/backend.h"

namespace demi::runtime {

/// What pool, operating system and device say of the memory of `backend`.
[[nodiscard]] memory::Stats memory_stats(const Backend& backend);

}  // namespace demi::runtime
