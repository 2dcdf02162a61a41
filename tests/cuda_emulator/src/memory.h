// Device memory in an address range of its own, and pinned host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cuda_emulator {

// Note [Device memory]
// One reserved range of addresses is device memory. The host may not touch it: it is inaccessible
// unless a DeviceAccess is alive, which is while queued work runs. Every allocation lies between
// guards that hold a pattern, and no address is given out twice, so that a pointer into freed
// memory never becomes valid again. Access opens only the 2 MiB chunks that hold live allocations:
// the rest faults. Huge pages keep opening and closing cheap.
class DeviceMemory {
 public:
  DeviceMemory();

  /// Filled with the byte of fresh memory. Null if the limit or the range does not allow it.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// False if no live allocation begins there.
  bool free(void* address);

  /// Bytes from the address to the end of the live allocation that holds it (or that it ends, then
  /// 0); -1 if there is none.
  [[nodiscard]] std::int64_t bytes_from(const void* address) const;
  /// True for every address of the range, whether allocated or not.
  [[nodiscard]] bool in_range(const void* address) const;
  /// "256 bytes past the end of …": where a device address lies, for messages.
  [[nodiscard]] std::string describe(const void* address) const;

  [[nodiscard]] std::size_t count() const { return allocations_.size(); }
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t limit() const { return limit_; }
  void set_limit(std::size_t bytes);  ///< 0: the default

  /// Fatal if a guard was written.
  void check_guards() const;

 private:
  friend class DeviceAccess;
  struct Chunks {
    std::uintptr_t begin, end;
  };

  void open();
  void close();
  void update_spans();
  void release_chunks(std::uintptr_t begin, std::uintptr_t end);

  std::uintptr_t base_ = 0;
  std::uintptr_t end_ = 0;
  std::uintptr_t next_ = 0;                            ///< where the next allocation's guard begins
  std::map<std::uintptr_t, std::size_t> allocations_;  ///< address → bytes
  std::vector<Chunks> spans_;                          ///< to be opened
  int open_ = 0;
  std::size_t used_ = 0;
  std::size_t limit_ = 0;
};

[[nodiscard]] DeviceMemory& device_memory();

/// Device memory is accessible as long as one of these is alive.
class DeviceAccess {
 public:
  DeviceAccess() { device_memory().open(); }
  ~DeviceAccess() { device_memory().close(); }
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Pinned host memory: whole pages, a guard after the last byte, an inaccessible page behind.
[[nodiscard]] void* allocate_pinned(std::size_t bytes);
/// False if no live allocation begins there. Fatal if the guard was written.
bool free_pinned(void* address);
[[nodiscard]] std::size_t pinned_count();

/// True if the page of the address is mapped in this process.
[[nodiscard]] bool is_mapped(const void* address);

}  // namespace cuda_emulator
