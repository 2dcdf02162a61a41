// StateBlock: the small variables of a training step in one allocation, so that one copy brings all
// of them to the host.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/backend.h"

namespace demi::runtime {

/// Counters, loss scale, learning rate and metric sums live here. Not thread safe.
class StateBlock {
 public:
  static constexpr std::size_t kBytes = 16384;

  /// `memory` has kBytes on the backend's device.
  StateBlock(Backend& backend, std::shared_ptr<DeviceMemory> memory);

  /// Zero-filled memory within the block, which it keeps alive; null if there is no room left.
  [[nodiscard]] std::shared_ptr<DeviceMemory> place(std::size_t bytes);

  /// Queues a copy of the block as it is after all work queued so far.
  void start_readback() { readback_->start(); }
  [[nodiscard]] bool readback_is_ready() { return readback_->is_ready(); }

 private:
  friend class SnapshotScope;

  std::shared_ptr<DeviceMemory> memory_;
  std::unique_ptr<Readback> readback_;
  std::size_t used_ = 0;
};

/// While it lives, this thread reads variables of the block from the copy that arrived last instead
/// of waiting for the device.
class SnapshotScope {
 public:
  explicit SnapshotScope(const StateBlock& block);
  ~SnapshotScope();
  SnapshotScope(const SnapshotScope&) = delete;
  SnapshotScope& operator=(const SnapshotScope&) = delete;

 private:
  const SnapshotScope* previous_;
  const DeviceMemory* memory_;
  const std::byte* bytes_;

  friend class BlockRange;
};

}  // namespace demi::runtime
