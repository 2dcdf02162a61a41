// Timing of plans on the device.
#pragma once

#include <cstddef>
#include <span>

#include <cuda_runtime.h>

#include "kernels/cuda/cudnn/plan.h"

namespace demi::cuda::cudnn {

/// One plan as measured.
struct Measurement {
  float milliseconds = 0;
  std::size_t workspace_bytes = 0;
};

/// The one to use: of those at most 3 % slower than the fastest, which is less than two
/// measurements of the same differ, the one with the least workspace; the earlier of equals.
[[nodiscard]] std::size_t preferred(std::span<const Measurement> measurements);

/// Runs plans of one graph, one after another, on zeros in memory of its own, and gives the
/// preferred(). 0, with a message on stderr, if that memory cannot be had. Waits for the stream.
[[nodiscard]] std::size_t fastest(std::span<Plan> plans, cudaStream_t stream);

}  // namespace demi::cuda::cudnn
