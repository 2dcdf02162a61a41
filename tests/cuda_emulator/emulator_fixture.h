// What the emulator's own tests share.
#pragma once

#include <cstddef>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "cuda_emulator/control.h"

namespace demi::testing {

/// Every test begins with a fresh emulator and must leave nothing alive.
class EmulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    demi_emulator_reset();
    // Whatever the environment says.
    demi_emulator_set_seed(0);
    demi_emulator_set_shuffle(0);
    demi_emulator_set_fill(0xFF);
  }
  void TearDown() override {
    demi_emulator_reset();
    EXPECT_EQ(demi_emulator_leaks(nullptr), 0u);
  }

  [[nodiscard]] static DemiEmulatorCounters counters() {
    DemiEmulatorCounters counters;
    demi_emulator_counters(&counters);
    return counters;
  }
};

/// A device array that frees itself.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceArray() { (void)cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  /// Waits for the legacy default stream.
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(size_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

/// A pinned array that frees itself.
template <class T>
class PinnedArray {
 public:
  explicit PinnedArray(std::size_t size) {
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&data_), size * sizeof(T), 0), cudaSuccess);
  }
  ~PinnedArray() { (void)cudaFreeHost(data_); }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
};

/// A stream, non-blocking unless told otherwise, that destroys itself.
class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~TestStream() { (void)cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDefault) {
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, flags), cudaSuccess);
  }
  ~TestEvent() { (void)cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

}  // namespace demi::testing
