// The pattern of the guards around allocations.
#pragma once

#include <cstddef>
#include <cstring>

#include "tests/cuda_emulator/src/sanitizer.h"

namespace cuda_emulator {

inline constexpr std::size_t kGuardBytes = 512;
inline constexpr unsigned char kGuardByte = 0xA5;

inline void write_guard(void* address, std::size_t bytes) {
  allow(address, bytes);
  std::memset(address, kGuardByte, bytes);
  forbid(address, bytes);
}

/// The offset of the first byte that was overwritten; `bytes` if none was. The guard is forbidden
/// to instrumented code, which this is not.
CUDA_EMULATOR_NO_ASAN inline std::size_t first_damage(const void* address, std::size_t bytes) {
  const auto* guard = static_cast<const volatile unsigned char*>(address);
  std::size_t i = 0;
  // Words first: guards are checked after every operation.
  constexpr unsigned long long kWord = 0x0101010101010101ull * kGuardByte;
  for (; i < bytes && reinterpret_cast<std::size_t>(guard + i) % sizeof(kWord) != 0; ++i) {
    if (guard[i] != kGuardByte) return i;
  }
  for (; i + sizeof(kWord) <= bytes; i += sizeof(kWord)) {
    if (*reinterpret_cast<const volatile unsigned long long*>(guard + i) != kWord) break;
  }
  for (; i < bytes; ++i) {
    if (guard[i] != kGuardByte) return i;
  }
  return bytes;
}

}  // namespace cuda_emulator
