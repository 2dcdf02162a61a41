#include "src/runtime/state_block.h"

#include <cstring>
#include <utility>
#include <vector>

#include "src/core/check.h"
#include "src/plan/memory_planner.h"

namespace demi::runtime {
namespace {

thread_local const SnapshotScope* current_snapshot = nullptr;

}  // namespace

/// A part of a block's memory.
class BlockRange final : public DeviceMemory {
 public:
  BlockRange(std::shared_ptr<DeviceMemory> block, std::size_t offset, std::size_t bytes)
      : DeviceMemory(block->device(), static_cast<char*>(block->address()) + offset, bytes),
        block_(std::move(block)),
        offset_(offset) {}

  void read(void* host, std::size_t offset, std::size_t count) const override {
    DEMI_CHECK(offset + count <= bytes_, "read past the end of a variable");
    const SnapshotScope* snapshot = current_snapshot;
    if (snapshot != nullptr && snapshot->memory_ == block_.get()) {
      std::memcpy(host, snapshot->bytes_ + offset_ + offset, count);
      return;
    }
    block_->read(host, offset_ + offset, count);
  }
  void write(const void* host, std::size_t offset, std::size_t count) override {
    DEMI_CHECK(offset + count <= bytes_, "write past the end of a variable");
    block_->write(host, offset_ + offset, count);
  }

 private:
  std::shared_ptr<DeviceMemory> block_;
  std::size_t offset_;
};

StateBlock::StateBlock(Backend& backend, std::shared_ptr<DeviceMemory> memory)
    : memory_(std::move(memory)), readback_(backend.make_readback(memory_)) {
  const std::vector<std::byte> zeros(kBytes);
  memory_->write(zeros.data(), 0, kBytes);
}

std::shared_ptr<DeviceMemory> StateBlock::place(std::size_t bytes) {
  if (used_ + bytes > kBytes) return nullptr;
  auto range = std::make_shared<BlockRange>(memory_, used_, bytes);
  used_ += plan::align_up(bytes);
  return range;
}

SnapshotScope::SnapshotScope(const StateBlock& block)
    : previous_(current_snapshot), memory_(block.memory_.get()), bytes_(block.readback_->bytes()) {
  current_snapshot = this;
}

SnapshotScope::~SnapshotScope() {
  current_snapshot = previous_;
}

}  // namespace demi::runtime
