#include "src/core/device_memory.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <demi/error.h>

#include "src/core/check.h"

namespace demi {
namespace {

constexpr std::size_t kAlignment = 256;

std::atomic<std::size_t> bytes_in_use = 0;

class HostMemory final : public DeviceMemory {
 public:
  HostMemory(std::string device, void* address, std::size_t bytes)
      : DeviceMemory(std::move(device), address, bytes) {
    bytes_in_use += bytes;
  }
  ~HostMemory() override {
    bytes_in_use -= bytes_;
    std::free(address_);
  }

  void read(void* host, std::size_t offset, std::size_t count) const override {
    DEMI_CHECK(offset + count <= bytes_, "read past the end of a host allocation");
    if (count > 0) std::memcpy(host, static_cast<const char*>(address_) + offset, count);
  }
  void write(const void* host, std::size_t offset, std::size_t count) override {
    DEMI_CHECK(offset + count <= bytes_, "write past the end of a host allocation");
    if (count > 0) std::memcpy(static_cast<char*>(address_) + offset, host, count);
  }
};

}  // namespace

std::shared_ptr<DeviceMemory> allocate_host_memory(std::size_t bytes, std::string device) {
  const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* address = std::aligned_alloc(kAlignment, rounded);
  if (address == nullptr) {
    throw OutOfMemory("[memory] could not allocate " + std::to_string(bytes) +
                      " bytes of host memory.");
  }
  std::memset(address, 0, rounded);
  return std::make_shared<HostMemory>(std::move(device), address, bytes);
}

std::size_t host_memory_in_use() {
  return bytes_in_use;
}

}  // namespace demi
