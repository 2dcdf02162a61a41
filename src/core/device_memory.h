// DeviceMemory: one allocation on a device, as seen from the host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace demi {

/// Owned through std::shared_ptr; freed with its last owner. Backends derive from it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Name of the backend whose memory this is: "cpu", "cuda:0".
  [[nodiscard]] const std::string& device() const { return device_; }
  /// The device address. Only the backend that made it may dereference it.
  [[nodiscard]] void* address() const { return address_; }

  /// Blocking copies of [offset, offset + count) after all work queued on the device so far.
  virtual void read(void* host, std::size_t offset, std::size_t count) const = 0;
  virtual void write(const void* host, std::size_t offset, std::size_t count) = 0;

 protected:
  DeviceMemory(std::string device, void* address, std::size_t bytes)
      : device_(std::move(device)), address_(address), bytes_(bytes) {}

  std::string device_;
  void* address_;
  std::size_t bytes_;
};

/// The device of variables before a model is compiled.
inline constexpr const char* kHost = "host";

/// Zero-filled host memory aligned to 256 bytes, for the CPU backend ("cpu") or kHost. Throws
/// demi::OutOfMemory.
[[nodiscard]] std::shared_ptr<DeviceMemory> allocate_host_memory(std::size_t bytes,
                                                                 std::string device = kHost);

/// Bytes of all such allocations that are alive.
[[nodiscard]] std::size_t host_memory_in_use();

}  // namespace demi
