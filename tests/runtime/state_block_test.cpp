#include "src/runtime/state_block.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/op_harness.h"

namespace demi::runtime {
namespace {

std::int64_t read(const DeviceMemory& memory) {
  std::int64_t value = 0;
  memory.read(&value, 0, sizeof(value));
  return value;
}

void write(DeviceMemory& memory, std::int64_t value) {
  memory.write(&value, 0, sizeof(value));
}

TEST(StateBlock, GivesRangesOfItsOwnUntilItIsFull) {
  const auto backend = testing::test_backend(testing::test_device());
  StateBlock block(*backend, backend->allocate(StateBlock::kBytes, "state"));
  const auto first = block.place(8);
  const auto second = block.place(8);
  write(*first, 1);
  write(*second, 2);
  EXPECT_EQ(read(*first), 1);
  EXPECT_EQ(read(*second), 2);
  EXPECT_EQ(first->device(), backend->name());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second->address()) % 64, 0u);
  EXPECT_NE(block.place(StateBlock::kBytes - 128), nullptr);
  EXPECT_EQ(block.place(1), nullptr);
}

TEST(StateBlock, SnapshotShowsWhatWasThereWhenTheCopyWasSentFor) {
  const auto backend = testing::test_backend(testing::test_device());
  StateBlock block(*backend, backend->allocate(StateBlock::kBytes, "state"));
  StateBlock other(*backend, backend->allocate(StateBlock::kBytes, "state"));
  const auto counter = block.place(8);
  const auto elsewhere = other.place(8);
  write(*counter, 5);
  block.start_readback();
  backend->synchronize();
  ASSERT_TRUE(block.readback_is_ready());
  write(*counter, 6);
  write(*elsewhere, 7);
  {
    const SnapshotScope snapshot(block);
    EXPECT_EQ(read(*counter), 5);
    EXPECT_EQ(read(*elsewhere), 7) << "another block is read as it is";
  }
  EXPECT_EQ(read(*counter), 6);
}

}  // namespace
}  // namespace demi::runtime
