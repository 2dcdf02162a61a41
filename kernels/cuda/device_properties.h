// DeviceProperties from a device or from a profile.
#pragma once

#include <string_view>

#include "kernels/backend.h"
#include "kernels/cuda/context.h"

namespace demi::cuda {

/// The properties of a GPU of this machine. Throws DeviceError for one too old for this build.
[[nodiscard]] DeviceProperties read_device_properties(int ordinal);

/// The properties in a profile, kernels/cuda/profiles/<name>.json. Throws std::invalid_argument
/// naming the profiles there are.
[[nodiscard]] DeviceProperties profile_properties(std::string_view name);

/// What such a GPU could do at most.
[[nodiscard]] DevicePeaks peaks_of(const DeviceProperties& properties, bool allows_tf32);

}  // namespace demi::cuda
