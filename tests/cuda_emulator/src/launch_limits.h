// Names of kernels, and what cudaFuncSetAttribute allows them.
#pragma once

#include <cstddef>
#include <string>

#include <cuda_runtime_api.h>

namespace cuda_emulator {

/// The kernel's name if it is visible, else "file+offset".
[[nodiscard]] const std::string& kernel_name(const void* function);

/// Allows launches with that much dynamic shared memory; refused above the limit of the device.
cudaError_t set_dynamic_limit(const void* function, std::size_t bytes);

}  // namespace cuda_emulator
