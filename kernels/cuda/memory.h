// Memory of a GPU as the compiler and the runtime see it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/context.h"

namespace demi::cuda {

/// Zero-filled. Throws OutOfMemory giving the bytes asked for and free, and what holds the rest:
/// the largest of the allocations that are alive, by `purpose`.
[[nodiscard]] std::shared_ptr<DeviceMemory> allocate_device_memory(std::shared_ptr<Context> context,
                                                                   const std::string& device,
                                                                   std::size_t bytes,
                                                                   const std::string& purpose);

/// Pinned host memory and its copy on the device, moved in one transfer on a stream of its own.
[[nodiscard]] std::unique_ptr<InputSet> allocate_device_inputs(
    std::shared_ptr<Context> context, const std::vector<std::size_t>& bytes,
    const Allocator& allocate);

/// Through pinned memory, on the stream of the kernels.
[[nodiscard]] std::unique_ptr<Readback> make_device_readback(
    std::shared_ptr<Context> context, std::shared_ptr<const DeviceMemory> memory);

}  // namespace demi::cuda
