#include "tests/cuda_emulator/src/device_profile.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "kernels/cuda/profiles.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

std::string profile_text(const std::string& name) {
  std::string names;
  for (const demi::cuda::Profile& profile : demi::cuda::profiles()) {
    if (profile.name == name) return profile.json;
    names += " " + profile.name;
  }
  std::ifstream file(name);
  if (!file) fatal("DEMI_EMULATOR_DEVICE is none of" + names + " and no file: " + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

DeviceProfile parse(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  DeviceProfile p;
  p.json = text;
  p.name = json.at("deviceName");
  p.capability = json.at("deviceVer").get<int>() / 10;
  p.multiprocessors = json.at("multiProcessorCount");
  p.memory_bytes = json.at("totalGlobalMem");
  p.l2_bytes = json.at("l2CacheSize");
  for (int i = 0; i < 3; ++i) {
    p.max_block[i] = json.at("maxBlockSize").at(static_cast<std::size_t>(i));
    p.max_grid[i] = json.at("maxGridSize").at(static_cast<std::size_t>(i));
  }
  p.threads_per_block = json.at("maxThreadsPerBlock");
  p.threads_per_multiprocessor = json.at("maxThreadsPerSM");
  p.blocks_per_multiprocessor = json.at("maxCtasPerSM");
  p.registers_per_block = json.at("regsPerBlock");
  p.registers_per_multiprocessor = json.at("maxRegistersPerSM");
  p.shared_per_block = json.at("maxSharedMemoryPerBlock");
  p.shared_per_block_optin = json.at("maxSharedMemoryPerBlockOptin");
  p.reserved_shared_per_block = json.at("reservedSharedMemoryPerBlock");
  p.clock_khz = json.at("smClockRateKHz");
  p.memory_clock_khz = json.at("memClockRateKHz");
  p.driver_version = json.at("driverVer");
  return p;
}

DeviceProfile load() {
  const char* name = std::getenv("DEMI_EMULATOR_DEVICE");
  try {
    return parse(profile_text(name != nullptr && *name != '\0' ? name : "h200"));
  } catch (const nlohmann::json::exception& error) {
    fatal(std::string("the profile of the device cannot be read: ") + error.what());
  }
}

}  // namespace

const DeviceProfile& device_profile() {
  static const auto* profile = new DeviceProfile(load());
  return *profile;
}

const std::string& device_json() {
  return device_profile().json;
}

int compute_capability() {
  return device_profile().capability;
}

}  // namespace cuda_emulator
