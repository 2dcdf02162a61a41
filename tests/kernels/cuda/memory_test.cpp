// Device memory and the pinned memory of the host.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "tests/kernels/cuda/cuda_kernels.h"

namespace demi {
namespace {

/// Copies to and from pinned memory do not wait for the host by themselves, as those to and from
/// other memory do.
class CudaMemory : public testing::CudaKernels {
 protected:
  void SetUp() override {
    CudaKernels::SetUp();
    if (IsSkipped()) return;
    backend_ = testing::test_backend(kDevice);
    memory_ = backend_->allocate(kBytes, "a test's memory");
    pinned_ = backend_->allocate_inputs(
        {kBytes}, [&](std::size_t bytes) { return backend_->allocate(bytes, "a test's inputs"); });
  }

  static constexpr std::size_t kBytes = 64;
  const std::vector<unsigned char> sevens_ = std::vector<unsigned char>(kBytes, 7);
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<DeviceMemory> memory_;
  std::unique_ptr<InputSet> pinned_;
};

TEST_F(CudaMemory, IsReadIntoPinnedMemoryAtOnce) {
  memory_->write(sevens_.data(), 0, kBytes);
  void* host = pinned_->host(0);
  std::memset(host, 0, kBytes);
  memory_->read(host, 0, kBytes);
  EXPECT_EQ(std::memcmp(host, sevens_.data(), kBytes), 0);
}

TEST_F(CudaMemory, IsWrittenFromPinnedMemoryAtOnce) {
  void* host = pinned_->host(0);
  std::memcpy(host, sevens_.data(), kBytes);
  memory_->write(host, 0, kBytes);
  std::memset(host, 0, kBytes);
  std::vector<unsigned char> now(kBytes);
  memory_->read(now.data(), 0, kBytes);
  EXPECT_EQ(now, sevens_);
}

TEST_F(CudaMemory, OfInputsHoldsTheBatchThatKernelsWereQueuedFor) {
  const Attributes none;
  const TensorType batch{{16}, float32};
  const auto copy = backend_->select({"relu", none, {&batch, 1}, {&batch, 1}}).kernel;
  ASSERT_NE(copy, nullptr);
  // Kernels wait for their batch, a transfer for the kernels before it, the host for the transfer:
  // without one of the waits, some order of the two streams takes a wrong batch.
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    DEMI_EMULATOR(demi_emulator_set_seed)(seed);
    std::vector<std::shared_ptr<DeviceMemory>> copies;
    for (int step = 1; step <= 4; ++step) {
      auto* host = static_cast<float*>(pinned_->host(0));
      std::fill_n(host, 16, static_cast<float>(step));
      pinned_->upload();
      copies.push_back(backend_->allocate(kBytes, "a test's copy"));
      const void* from = pinned_->address(0);
      void* to = copies.back()->address();
      copy->run({{&from, 1}, {&to, 1}, nullptr});
      pinned_->release();
    }
    std::fill_n(static_cast<float*>(pinned_->host(0)), 16, -1.0F);
    for (std::size_t step = 0; step < copies.size(); ++step) {
      std::vector<float> values(16);
      copies[step]->read(values.data(), 0, kBytes);
      EXPECT_EQ(values, std::vector<float>(16, static_cast<float>(step + 1))) << "seed " << seed;
    }
  }
  DEMI_EMULATOR(demi_emulator_set_seed)(0);
}

}  // namespace
}  // namespace demi
