#include "kernels/cuda/device_properties.h"

#include <vector>

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <demi/error.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/profiles.h"
#include "src/core/check.h"

namespace demi::cuda {
namespace {

/// The oldest GPUs for which cuDNN and the compiler of this CUDA version have code.
constexpr int kLeastCapability = CUDART_VERSION >= 13000 ? 75 : 70;

int attribute(cudaDeviceAttr which, int ordinal) {
  int value = 0;
  DEMI_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, ordinal));
  return value;
}

}  // namespace

DeviceProperties read_device_properties(int ordinal) {
  cudaDeviceProp device = {};
  DEMI_CUDA_CHECK(cudaGetDeviceProperties(&device, ordinal));
  DeviceProperties properties;
  properties.name = device.name;
  properties.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
                                  attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
  properties.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, ordinal);
  properties.memory_bytes = device.totalGlobalMem;
  properties.pci_bus_id = fmt::format("{:04x}:{:02x}:{:02x}.0", device.pciDomainID, device.pciBusID,
                                      device.pciDeviceID);
  properties.shared_bytes_per_block =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlock, ordinal));
  if (properties.compute_capability < kLeastCapability) {
    throw DeviceError(
        "[device] expected compute capability " + std::to_string(kLeastCapability / 10) + "." +
        std::to_string(kLeastCapability % 10) + " or newer. Received: " + properties.name + ", " +
        std::to_string(properties.compute_capability / 10) + "." +
        std::to_string(properties.compute_capability % 10) + ".");
  }
  return properties;
}

DeviceProperties profile_properties(std::string_view name) {
  std::vector<std::string> names;
  for (const Profile& profile : profiles()) names.emplace_back(profile.name);
  for (const Profile& profile : profiles()) {
    if (profile.name != name) continue;
    const nlohmann::json json = nlohmann::json::parse(profile.json);
    DeviceProperties properties;
    properties.name = json.at("deviceName");
    properties.compute_capability = json.at("deviceVer").get<int>() / 10;
    properties.multiprocessors = json.at("multiProcessorCount");
    properties.memory_bytes = json.at("totalGlobalMem");
    properties.shared_bytes_per_block = json.at("maxSharedMemoryPerBlock");
    properties.cudnn_json = profile.json;
    return properties;
  }
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  internal::fail_argument("plan", "expected a device profile, one of " + list + ". Received: '" +
                                      std::string(name) + "'." +
                                      internal::did_you_mean(name, names));
}

}  // namespace demi::cuda
