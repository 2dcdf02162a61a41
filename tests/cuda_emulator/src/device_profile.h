// The GPU that the emulator claims to be.
#pragma once

#include <cstddef>
#include <string>

namespace cuda_emulator {

/// The fields of kernels/cuda/profiles/*.json.
struct DeviceProfile {
  std::string json;
  std::string name;
  int capability = 0;  ///< 10 · major + minor
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  int l2_bytes = 0;
  int max_block[3] = {};
  int max_grid[3] = {};
  int threads_per_block = 0;
  int threads_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 0;
  int registers_per_block = 0;
  int registers_per_multiprocessor = 0;
  std::size_t shared_per_block = 0;
  std::size_t shared_per_block_optin = 0;
  std::size_t reserved_shared_per_block = 0;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int driver_version = 0;
};

/// The profile that DEMI_EMULATOR_DEVICE names ("t4", or the path of a .json file) when it is first
/// asked for; "h200" unless told otherwise. Fatal if there is none.
[[nodiscard]] const DeviceProfile& device_profile();

}  // namespace cuda_emulator
