// What the operating system says about the memory of this process.
#pragma once

#include <cstddef>

namespace demi::runtime {

/// Bytes of the process that are in physical memory now (/proc/self/statm); 0 where the system does
/// not tell.
[[nodiscard]] std::size_t resident_bytes();

}  // namespace demi::runtime
