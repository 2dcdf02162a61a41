// Timing of plans on the device.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include <cuda_runtime.h>

#include "kernels/cuda/cudnn/plan.h"

namespace demi::cuda::cudnn {

/// Runs plans of one graph, one after another, on zeros in memory of its own, and gives the
/// preferred() of those that ran: that cuDNN makes a plan does not mean that it can run it. 0, with
/// a message on stderr, if that memory cannot be had. None, with a reason, if no plan ran. Waits
/// for the stream.
[[nodiscard]] std::optional<std::size_t> fastest(std::span<Plan> plans, cudaStream_t stream,
                                                 std::string& reason);

}  // namespace demi::cuda::cudnn
