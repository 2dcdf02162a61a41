#include "src/runtime/memory_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/error.h>

#include "tests/support/message_of.h"

namespace demi::runtime {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

/// Each test has the CPU's pool to itself and leaves it as it was.
class MemoryPoolTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pool().stats().in_use, 0u); }
  void TearDown() override { pool().configure({}); }

  static MemoryPool& pool() { return MemoryPool::of("cpu"); }
  std::shared_ptr<DeviceMemory> take(std::size_t bytes) {
    return pool().allocate(backend_, bytes, "test");
  }

  std::shared_ptr<Backend> backend_ = make_cpu_backend(1);
};

TEST_F(MemoryPoolTest, ExactGivesBackWhatIsFreed) {
  const std::size_t before = host_memory_in_use();
  auto a = take(1000);
  auto b = take(5000);
  EXPECT_EQ(pool().stats().in_use, 6000u);
  EXPECT_EQ(pool().stats().reserved, 1024u + 5120);
  a.reset();
  EXPECT_EQ(pool().stats().in_use, 5000u);
  EXPECT_EQ(pool().stats().reserved, 5120u);
  b.reset();
  EXPECT_EQ(pool().stats().reserved, 0u);
  EXPECT_EQ(host_memory_in_use(), before);
}

TEST_F(MemoryPoolTest, RemembersThePeak) {
  pool().reset_peak();
  { const auto a = take(4096), b = take(4096); }
  EXPECT_EQ(pool().stats().peak, 8192u);
  pool().reset_peak();
  EXPECT_EQ(pool().stats().peak, 0u);
}

TEST_F(MemoryPoolTest, GrowKeepsForTheNextModel) {
  pool().configure({.mode = memory::Mode::kGrow});
  void* address = nullptr;
  {
    const auto a = take(10000);
    address = a->address();
  }
  EXPECT_EQ(pool().stats().in_use, 0u);
  EXPECT_EQ(pool().stats().reserved, 10240u);
  const auto b = take(3000), c = take(3000);
  EXPECT_EQ(b->address(), address);
  EXPECT_EQ(c->address(), static_cast<char*>(address) + 3072);
  EXPECT_EQ(pool().stats().reserved, 10240u);
  const auto d = take(8000);
  EXPECT_EQ(pool().stats().reserved, 10240u + 8192);
}

TEST_F(MemoryPoolTest, FreedNeighboursBecomeOneRange) {
  pool().configure({.mode = memory::Mode::kGrow});
  { const auto all = take(4096); }
  auto a = take(1024), b = take(1024), c = take(1024), d = take(1024);
  EXPECT_EQ(pool().stats().reserved, 4096u);
  b.reset();
  d.reset();
  c.reset();
  a.reset();
  const auto all = take(4096);
  EXPECT_EQ(pool().stats().reserved, 4096u);
}

TEST_F(MemoryPoolTest, FractionTakesItsShareAtOnceAndNoMore) {
  const std::size_t total = backend_->memory_info().total;
  const double fraction = 1e6 / static_cast<double>(total);
  pool().configure({.mode = memory::Mode::kFraction, .fraction = fraction});
  const auto a = take(100);
  EXPECT_NEAR(static_cast<double>(pool().stats().reserved), 1e6, 2);
  const auto b = take(900'000);
  const std::string message = message_of<OutOfMemory>([&] { (void)take(200'000); });
  EXPECT_THAT(message, HasSubstr("could not allocate 200000 bytes for test"));
  EXPECT_THAT(message, HasSubstr("900100 are in use"));
  EXPECT_THAT(message, HasSubstr("the fraction"));
}

TEST_F(MemoryPoolTest, LimitIsNeverExceeded) {
  pool().configure({.limit_bytes = 10'240});
  auto a = take(8000);
  EXPECT_THAT(message_of<OutOfMemory>([&] { (void)take(3000); }),
              HasSubstr("the limit allows 10240 bytes on cpu"));
  EXPECT_EQ(pool().stats().in_use, 8000u);
  a.reset();
  EXPECT_NE(take(10'000), nullptr);
}

TEST_F(MemoryPoolTest, RefusesOptionsThatCannotBe) {
  const auto configure = [&](const memory::Options& options) {
    return message_of<std::invalid_argument>([&] { pool().configure(options); });
  };
  EXPECT_THAT(configure({.mode = memory::Mode::kFraction, .fraction = 1.5}),
              HasSubstr("Received: 1.5"));
  const auto a = take(5000);
  EXPECT_THAT(configure({.mode = memory::Mode::kGrow}), HasSubstr("5000 bytes are in use"));
  EXPECT_THAT(configure({.limit_bytes = 100}), HasSubstr("at least 5120 bytes"));
  pool().configure({.limit_bytes = 6000});
  EXPECT_EQ(pool().limit(1 << 30), 6000u);
}

TEST_F(MemoryPoolTest, RangesKeepTheirContents) {
  pool().configure({.mode = memory::Mode::kGrow});
  { const auto all = take(4096); }
  const auto a = take(1000), b = take(1000);
  const std::vector<char> ones(1000, 1), twos(1000, 2);
  a->write(ones.data(), 0, 1000);
  b->write(twos.data(), 0, 1000);
  std::vector<char> read(1000);
  a->read(read.data(), 0, 1000);
  EXPECT_EQ(read, ones);
  b->read(read.data(), 0, 1000);
  EXPECT_EQ(read, twos);
  EXPECT_THROW(a->write(ones.data(), 1, 1000), InternalError);
}

}  // namespace
}  // namespace demi::runtime
