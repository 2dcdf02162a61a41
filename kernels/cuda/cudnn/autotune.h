// Timing of plans on the device.
#pragma once

#include <cstddef>
#include <span>

#include <cuda_runtime.h>

#include "kernels/cuda/cudnn/plan.h"

namespace demi::cuda::cudnn {

/// Runs plans of one graph, one after another, on zeros in memory of its own, and gives the
/// preferred(). 0, with a message on stderr, if that memory cannot be had. Waits for the stream.
[[nodiscard]] std::size_t fastest(std::span<Plan> plans, cudaStream_t stream);

}  // namespace demi::cuda::cudnn
