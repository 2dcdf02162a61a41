// Launches: limits, arguments, names.

#include "cuda_emulator/launch.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/cuda_emulator/src/block.h"
#include "tests/cuda_emulator/src/device_profile.h"
#include "tests/cuda_emulator/src/launch_limits.h"
#include "tests/cuda_emulator/src/memory.h"
#include "tests/cuda_emulator/src/scheduler.h"
#include "tests/cuda_emulator/src/state.h"

namespace cuda_emulator {
namespace {

/// Bytes of dynamic shared memory that cudaFuncSetAttribute allowed. Never destroyed.
std::map<const void*, std::size_t>& dynamic_limits() {
  static auto* map = new std::map<const void*, std::size_t>;
  return *map;
}

std::size_t dynamic_limit(const void* function) {
  const auto found = dynamic_limits().find(function);
  return found == dynamic_limits().end() ? device_profile().shared_per_block : found->second;
}

/// The dynamic linker searches long lists of symbols for one.
std::string find_name(const void* function) {
  Dl_info info = {};
  if (dladdr(function, &info) != 0 && info.dli_sname != nullptr && info.dli_saddr == function) {
    int status = 0;
    char* demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    std::string name = status == 0 ? demangled : info.dli_sname;
    std::free(demangled);
    return name.substr(0, name.find('('));
  }
  // Kernels in unnamed namespaces have no symbol; addr2line -Cfe FILE OFFSET names them.
  char text[64];
  std::snprintf(text, sizeof(text), "+0x%zx",
                static_cast<std::size_t>(static_cast<const char*>(function) -
                                         static_cast<const char*>(info.dli_fbase)));
  std::string file = info.dli_fname != nullptr ? info.dli_fname : "?";
  return file.substr(file.rfind('/') + 1) + text;
}

cudaError_t check_geometry(const KernelLaunch& launch) {
  const DeviceProfile& device = device_profile();
  const unsigned grid[] = {launch.grid.x, launch.grid.y, launch.grid.z};
  const unsigned block[] = {launch.block.x, launch.block.y, launch.block.z};
  std::uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] == 0 || block[i] == 0) {
      explain("a launch of 0 blocks or threads");
      return cudaErrorInvalidConfiguration;
    }
    if (grid[i] > static_cast<unsigned>(device.max_grid[i]) ||
        block[i] > static_cast<unsigned>(device.max_block[i])) {
      explain("a launch with too large an extent of the grid or of the block");
      return cudaErrorInvalidConfiguration;
    }
    threads *= block[i];
  }
  if (threads > static_cast<std::uint64_t>(device.threads_per_block)) {
    explain("a launch of " + std::to_string(threads) + " threads in a block");
    return cudaErrorInvalidConfiguration;
  }
  if (launch.shared_bytes > dynamic_limit(launch.function)) {
    explain("a launch with " + std::to_string(launch.shared_bytes) + " bytes of shared memory");
    return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

/// Every aligned word of the arguments that could be an address must not be one the device may not
/// follow: of host memory that is not pinned, or of no live device allocation.
void check_arguments(const KernelLaunch& launch, const std::string& name) {
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const KernelArgument& argument = launch.arguments[i];
    for (std::size_t offset = 0; offset + sizeof(void*) <= argument.bytes;
         offset += sizeof(void*)) {
      const void* address = nullptr;
      std::memcpy(&address, static_cast<const char*>(argument.address) + offset, sizeof(void*));
      // Small numbers and addresses that no program has.
      if (reinterpret_cast<std::uintptr_t>(address) < 0x10000 ||
          reinterpret_cast<std::uintptr_t>(address) >> 47 != 0) {
        continue;
      }
      const std::string place = "kernel " + name + ": argument " + std::to_string(i) + ", byte " +
                                std::to_string(offset) + ", ";
      if (device_memory().in_range(address)) {
        if (device_memory().bytes_from(address) >= 0) continue;
        fatal(place + "points to no live device memory: " + device_memory().describe(address));
      }
      if (is_pinned_range(address, 1) || !is_mapped(address)) continue;
      fatal(place + "points to memory of the host");
    }
  }
}

}  // namespace

const std::string& kernel_name(const void* function) {
  static auto* names = new std::map<const void*, std::string>;
  const auto [place, is_new] = names->try_emplace(function);
  if (is_new) place->second = find_name(function);
  return place->second;
}

cudaError_t set_dynamic_limit(const void* function, std::size_t bytes) {
  if (bytes > device_profile().shared_per_block_optin) return cudaErrorInvalidValue;
  dynamic_limits()[function] = bytes;
  return cudaSuccess;
}

cudaError_t launch(KernelLaunch launch) {
  const Call call("cudaLaunchKernel");
  if (call.error() != cudaSuccess) return remember(call.error());
  const auto stream = find_stream(launch.stream, call.name());
  if (const cudaError_t error = check_geometry(launch); error != cudaSuccess) {
    return remember(error);
  }
  KernelRun run;
  run.name = kernel_name(launch.function);
  check_arguments(launch, run.name);
  run.grid = launch.grid;
  run.block = launch.block;
  run.shared_bytes = launch.shared_bytes;
  run.shared_limit = std::max(device_profile().shared_per_block, dynamic_limit(launch.function));
  run.thread = std::move(launch.thread);
  Operation operation;
  operation.name = "kernel " + run.name;
  operation.kind = Operation::Kind::kKernel;
  operation.run = [run = std::move(run)] { block_runner().run(run); };
  return remember(issue(*stream, std::move(operation)));
}

}  // namespace cuda_emulator
