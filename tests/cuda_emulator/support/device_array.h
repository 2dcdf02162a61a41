// Arrays of any floating type in device memory, filled from and read as double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace cuda_emulator::testing {

enum class Storage { kHalf, kBFloat16, kFloat, kDouble };

inline std::size_t size_of(Storage storage) {
  return storage == Storage::kDouble ? 8 : storage == Storage::kFloat ? 4 : 2;
}

/// Rounded to nearest even; by CUDA's own conversions.
inline void to_bytes(Storage storage, double value, std::byte* bytes) {
  const auto put = [&](auto stored) { std::memcpy(bytes, &stored, sizeof(stored)); };
  switch (storage) {
    case Storage::kHalf:
      return put(__float2half_rn(static_cast<float>(value)));
    case Storage::kBFloat16:
      return put(__float2bfloat16_rn(static_cast<float>(value)));
    case Storage::kFloat:
      return put(static_cast<float>(value));
    case Storage::kDouble:
      return put(value);
  }
}

inline double from_bytes(Storage storage, const std::byte* bytes) {
  const auto get = [&]<class T>(T value) {
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  };
  switch (storage) {
    case Storage::kHalf:
      return __half2float(get(__half{}));
    case Storage::kBFloat16:
      return __bfloat162float(get(__nv_bfloat16{}));
    case Storage::kFloat:
      return get(float{});
    case Storage::kDouble:
      return get(double{});
  }
  return 0;
}

inline double rounded(Storage storage, double value) {
  std::byte bytes[8];
  to_bytes(storage, value, bytes);
  return from_bytes(storage, bytes);
}

class DeviceArray {
 public:
  DeviceArray(Storage storage, const std::vector<double>& values)
      : storage_(storage), count_(values.size()) {
    allocate();
    std::vector<std::byte> bytes(count_ * size_of(storage));
    for (std::size_t i = 0; i < count_; ++i) {
      to_bytes(storage, values[i], bytes.data() + i * size_of(storage));
    }
    if (cudaMemcpy(address_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) != cudaSuccess) {
      throw std::runtime_error("cudaMemcpy failed");
    }
  }
  /// Uninitialised.
  DeviceArray(Storage storage, std::size_t count) : storage_(storage), count_(count) { allocate(); }
  ~DeviceArray() { (void)cudaFree(address_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  [[nodiscard]] void* get() const { return address_; }
  [[nodiscard]] std::byte* bytes() const { return static_cast<std::byte*>(address_); }

  /// Waits for the device.
  [[nodiscard]] std::vector<double> read() const {
    std::vector<std::byte> bytes(count_ * size_of(storage_));
    if (cudaDeviceSynchronize() != cudaSuccess ||
        cudaMemcpy(bytes.data(), address_, bytes.size(), cudaMemcpyDeviceToHost) != cudaSuccess) {
      throw std::runtime_error("reading device memory failed");
    }
    std::vector<double> values(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      values[i] = from_bytes(storage_, bytes.data() + i * size_of(storage_));
    }
    return values;
  }

 private:
  void allocate() {
    if (cudaMalloc(&address_, count_ * size_of(storage_) + 1) != cudaSuccess) {
      throw std::runtime_error("cudaMalloc failed");
    }
  }

  Storage storage_;
  std::size_t count_;
  void* address_ = nullptr;
};

/// Since compute capability 8.0 there are bfloat16 and TF32.
inline bool device_has_bfloat16() {
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) {
    throw std::runtime_error("cudaDeviceGetAttribute failed");
  }
  return major >= 8;
}

/// Values in [-1, 1], representable in `storage`.
inline std::vector<double> random_values(std::size_t count, Storage storage, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(count);
  for (double& value : values) value = rounded(storage, uniform(generator));
  return values;
}

}  // namespace cuda_emulator::testing
