// What NVIDIA's management library says of the memory of this process: the number that nvidia-smi
// shows. The library is opened when it is asked; demi needs it for nothing else.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace demi::runtime {

struct GpuProcessMemory {
  std::optional<std::size_t> bytes;
  std::string reason;  ///< why there is no number
};

/// Of the GPU with that PCI address, "0000:3b:00.0".
[[nodiscard]] GpuProcessMemory gpu_process_memory(const std::string& pci_bus_id);

}  // namespace demi::runtime
