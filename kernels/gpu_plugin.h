// The GPU backend as a library that is opened on demand: what the two sides agree on.
//
// The same build of demi runs with and without CUDA's libraries: only the plugin is linked to them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <demi/device.h>

#include "kernels/backend.h"

namespace demi {

/// Grows with every change of this header or of kernel.h and backend.h.
inline constexpr int kGpuPluginVersion = 6;

/// Which kernels to use where the plugin's own and calls of cuDNN do the same (max-pooling, batch
/// normalization). kFastest: the own ones, or what is measured to be faster on the device.
enum class Preference { kFastest, kOwn, kCudnn };

struct GpuOptions {
  bool allow_tf32 = false;
  bool autotune = true;  ///< measure cuDNN's engines, and its calls beside own kernels
  Preference preference = Preference::kFastest;
};

/// Filled by the plugin. All functions throw DeviceError saying what is missing.
struct GpuPlugin {
  int version = 0;
  /// The GPUs that can be used. If there are none, `reason` says why.
  std::vector<DeviceInfo> (*devices)(std::string& reason) = nullptr;
  /// Versions of the libraries: "CUDA runtime 13.0, cuDNN 9.19.0, cuBLAS 13.1".
  std::string (*library_versions)() = nullptr;
  std::shared_ptr<Backend> (*make_backend)(int ordinal, const GpuOptions& options) = nullptr;
  std::shared_ptr<Backend> (*make_planning_backend)(std::string_view profile,
                                                    const GpuOptions& options) = nullptr;
};

/// Opens lib<name>.so once per process: beside the program (../lib, the same folder), in
/// DEMI_PLUGIN_PATH, where demi is installed, in the system's folders. Null with `reason` if it is
/// nowhere or cannot be loaded.
[[nodiscard]] const GpuPlugin* load_gpu_plugin(const std::string& name, std::string& reason);

}  // namespace demi
