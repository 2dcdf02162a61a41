#include "src/runtime/nvml.h"

#include <vector>

#include <dlfcn.h>
#include <unistd.h>

namespace demi::runtime {
namespace {

// The part of nvml.h that is used; its ABI is stable.
using Device = void*;
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_gpu_memory;  // bytes, all ones if not available
  unsigned gpu_instance;
  unsigned compute_instance;
};
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;

struct Nvml {
  int (*device_by_pci_bus_id)(const char*, Device*) = nullptr;
  int (*compute_processes)(Device, unsigned*, ProcessInfo*) = nullptr;
  std::string reason;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
      reason = "libnvidia-ml.so.1 was not found";
      return;
    }
    const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    device_by_pci_bus_id = reinterpret_cast<decltype(device_by_pci_bus_id)>(
        dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    compute_processes = reinterpret_cast<decltype(compute_processes)>(
        dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"));
    const bool complete =
        initialize != nullptr && device_by_pci_bus_id != nullptr && compute_processes != nullptr;
    if (!complete || initialize() != kSuccess) {
      reason = complete ? "NVML cannot be initialized" : "NVML is too old";
    }
  }
};

}  // namespace

GpuProcessMemory gpu_process_memory(const std::string& pci_bus_id) {
  static const Nvml nvml;
  if (!nvml.reason.empty()) return {std::nullopt, nvml.reason};
  Device device = nullptr;
  if (nvml.device_by_pci_bus_id(pci_bus_id.c_str(), &device) != kSuccess) {
    return {std::nullopt, "NVML does not know the device " + pci_bus_id};
  }
  std::vector<ProcessInfo> processes(64);
  auto count = static_cast<unsigned>(processes.size());
  int status = nvml.compute_processes(device, &count, processes.data());
  if (status == kInsufficientSize) {
    processes.resize(count);
    status = nvml.compute_processes(device, &count, processes.data());
  }
  if (status != kSuccess) return {std::nullopt, "NVML does not list processes here"};
  for (unsigned i = 0; i < count; ++i) {
    if (processes[i].pid != static_cast<unsigned>(getpid())) continue;
    if (processes[i].used_gpu_memory == ~0ULL) break;
    return {static_cast<std::size_t>(processes[i].used_gpu_memory), ""};
  }
  return {std::nullopt, "NVML does not list this process (in a container it has another number)"};
}

}  // namespace demi::runtime
