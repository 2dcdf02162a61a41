// MemoryPool: the memory of one device as all models of the process share it.
//
// Invariants:
//  1. Every byte that a model holds on a device was handed out by the pool of that device.
//  2. Ranges in use of one region do not overlap; free ranges of one region never touch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <demi/memory.h>

#include "kernels/backend.h"

namespace demi::runtime {

/// May be used from several threads. Pools live as long as the process: like the global policy they
/// are a documented setting of it.
class MemoryPool {
 public:
  /// The pool of the device of that name.
  [[nodiscard]] static MemoryPool& of(const std::string& device);

  /// Throws std::invalid_argument "[memory] …" for a fraction outside (0, 1], a limit below what is
  /// reserved, or another mode while memory is in use.
  void configure(const memory::Options& options);

  /// Memory through `backend`, with undefined contents where it was in use before. Throws
  /// OutOfMemory naming the numbers if the limit, the fraction or the device does not allow it.
  [[nodiscard]] std::shared_ptr<DeviceMemory> allocate(const std::shared_ptr<Backend>& backend,
                                                       std::size_t bytes,
                                                       const std::string& purpose);

  /// The most that models may hold on the device; `total` is what the device has. 0: no limit
  /// known.
  [[nodiscard]] std::size_t limit(std::size_t total) const;

  /// What only the pool knows of memory::Stats.
  [[nodiscard]] memory::Stats stats() const;
  void reset_peak();

  /// A share of the statistics that somebody keeps up to date.
  struct Share {
    std::size_t planned = 0;        ///< allocated according to plans
    std::size_t arena_planned = 0;  ///< of these, by the largest plan's arena
    std::size_t arena_peak = 0;     ///< highest end of what kernels were given
  };
  class ShareHolder;
  [[nodiscard]] std::shared_ptr<ShareHolder> join();

 private:
  struct Region {
    std::shared_ptr<DeviceMemory> memory;
    std::map<std::size_t, std::size_t> free;  ///< offset -> bytes
  };
  class PooledMemory;

  explicit MemoryPool(std::string device) : device_(std::move(device)) {}

  [[nodiscard]] Region* find_room(std::size_t bytes);
  /// A new region with a free `range` for `bytes`.
  Region& make_room(Backend& backend, std::size_t range, std::size_t bytes,
                    const std::string& purpose);
  Region& add_region(Backend& backend, std::size_t bytes, const std::string& purpose);
  [[nodiscard]] std::size_t take(Region& region, std::size_t bytes);
  void give_back(const DeviceMemory* region, std::size_t offset, std::size_t bytes,
                 const std::string& purpose);
  [[noreturn]] void refuse(std::size_t bytes, const std::string& purpose, std::size_t most,
                           const std::string& what) const;
  [[nodiscard]] std::string largest() const;
  [[nodiscard]] std::size_t most(std::size_t total) const;

  const std::string device_;
  mutable std::mutex mutex_;
  memory::Options options_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::map<std::string, std::size_t> held_;  ///< by purpose
  std::vector<std::weak_ptr<ShareHolder>> shares_;
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;
  std::size_t reserved_ = 0;
};

/// Leaves the statistics with its last owner.
class MemoryPool::ShareHolder {
 public:
  Share share;
};

}  // namespace demi::runtime
