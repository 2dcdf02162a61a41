// The frame of every function of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

#include "tests/cuda_emulator/src/state.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {

/// Runs the body of a runtime function, which returns a cudaError_t, unless an error is injected or
/// sticks; remembers what is returned.
template <class Body>
cudaError_t api(const char* name, Body&& body) {
  const Call call(name);
  return remember(call.error() != cudaSuccess ? call.error() : body());
}

}  // namespace cuda_emulator
