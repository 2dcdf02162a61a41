#include "kernels/cuda/device_properties.h"

#include <string>
#include <utility>
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

/// Two transfers per clock.
double memory_bytes_per_second(int clock_khz, int bus_bits) {
  return 2.0 * 1e3 * clock_khz * bus_bits / 8;
}

/// Width of the memory's bus, which profiles leave out; from the makers' data sheets.
int profile_bus_bits(std::string_view name) {
  constexpr std::pair<std::string_view, int> kBits[] = {{"t4", 256},      {"a100", 5120},
                                                        {"rtx4090", 384}, {"h100", 5120},
                                                        {"h200", 6144},   {"b200", 8192}};
  for (const auto& [profile, bits] : kBits) {
    if (profile == name) return bits;
  }
  return 0;
}

/// Multiply-adds that a multiprocessor does in a clock.
struct PerClock {
  int float32 = 0;
  int tf32 = 0;
  int half = 0;
};

/// Sources: "Arithmetic instructions" of the CUDA programming guide for float32; the architectures'
/// whitepapers for dense products on tensor cores that accumulate in float32. Of 8.6, 8.9 and 12.0
/// there are boards with twice the rate; these are GeForce's.
PerClock per_clock(int compute_capability) {
  switch (compute_capability / 10) {
    case 7:
      return {.float32 = 64, .tf32 = 0, .half = 512};
    case 8:
      return compute_capability == 80 ? PerClock{.float32 = 64, .tf32 = 512, .half = 1024}
                                      : PerClock{.float32 = 128, .tf32 = 128, .half = 256};
    case 9:
      return {.float32 = 128, .tf32 = 1024, .half = 2048};
    case 10:
      return {.float32 = 128, .tf32 = 2048, .half = 4096};
    default:
      return {.float32 = 128, .tf32 = 128, .half = 256};
  }
}

}  // namespace

DevicePeaks peaks_of(const DeviceProperties& properties, bool allows_tf32) {
  const PerClock each = per_clock(properties.compute_capability);
  const double clocks = 2.0 * properties.multiprocessors * properties.clock_hz;
  return {.bytes_per_second = properties.memory_bytes_per_second,
          .float32_flops = each.float32 * clocks,
          .tf32_flops = each.tf32 * clocks,
          .float16_flops = each.half * clocks,
          .bfloat16_flops = properties.supports_bfloat16() ? each.half * clocks : 0,
          .allows_tf32 = allows_tf32,
          .compute_capability = properties.compute_capability};
}

DeviceProperties read_device_properties(int ordinal) {
  cudaDeviceProp device = {};
  DEMI_CUDA_CHECK(cudaGetDeviceProperties(&device, ordinal));
  DeviceProperties properties;
  properties.name = device.name;
  properties.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
                                  attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
  properties.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, ordinal);
  properties.memory_bytes = device.totalGlobalMem;
  properties.clock_hz = 1e3 * attribute(cudaDevAttrClockRate, ordinal);
  properties.memory_bytes_per_second =
      memory_bytes_per_second(attribute(cudaDevAttrMemoryClockRate, ordinal),
                              attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal));
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
    properties.clock_hz = 1e3 * json.at("smClockRateKHz").get<int>();
    properties.memory_bytes_per_second =
        memory_bytes_per_second(json.at("memClockRateKHz"), profile_bus_bits(name));
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
