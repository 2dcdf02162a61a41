// What AddressSanitizer is told, where the emulator is built with it.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define CUDA_EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDA_EMULATOR_ASAN 1
#endif
#endif

#ifdef CUDA_EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define CUDA_EMULATOR_NO_ASAN __attribute__((no_sanitize("address")))
#else
#define CUDA_EMULATOR_NO_ASAN
#endif

namespace cuda_emulator {

/// Instrumented code that touches the bytes is reported from now on.
inline void forbid([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t bytes) {
#ifdef CUDA_EMULATOR_ASAN
  __asan_poison_memory_region(address, bytes);
#endif
}

inline void allow([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t bytes) {
#ifdef CUDA_EMULATOR_ASAN
  __asan_unpoison_memory_region(address, bytes);
#endif
}

}  // namespace cuda_emulator
