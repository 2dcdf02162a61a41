// Operands of the kernel tests: random values of any floating dtype, read back as double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <demi/dtype.h>

namespace demi::cpu::testing {

/// 64-byte aligned bytes that end where the data ends, so that address sanitizer sees overruns.
class Bytes {
 public:
  explicit Bytes(std::size_t size)
      : size_(size),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (size + 127) / 64 * 64))) {
    std::memset(data_.get(), 0xff, (size + 127) / 64 * 64);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  friend bool operator==(const Bytes& a, const Bytes& b) {
    return a.size_ == b.size_ && std::memcmp(a.data(), b.data(), a.size_) == 0;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

inline double get(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kFloat16:
      return static_cast<float>(static_cast<const Float16*>(data)[i]);
    case DType::kBFloat16:
      return static_cast<float>(static_cast<const BFloat16*>(data)[i]);
    case DType::kFloat64:
      return static_cast<const double*>(data)[i];
    default:
      return static_cast<double>(static_cast<const float*>(data)[i]);
  }
}

inline void set(void* data, DType dtype, std::int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::kFloat16:
      static_cast<Float16*>(data)[i] = Float16(narrow);
      return;
    case DType::kBFloat16:
      static_cast<BFloat16*>(data)[i] = BFloat16(narrow);
      return;
    case DType::kFloat64:
      static_cast<double*>(data)[i] = value;
      return;
    default:
      static_cast<float*>(data)[i] = narrow;
      return;
  }
}

/// A tensor of `count` elements.
class Buffer {
 public:
  Buffer(std::int64_t count, DType dtype)
      : count_(count), dtype_(dtype), bytes_(static_cast<std::size_t>(count) * size_of(dtype)) {}

  /// Uniform in [-1, 1], rounded to the dtype.
  static Buffer random(std::int64_t count, DType dtype, unsigned seed) {
    Buffer buffer(count, dtype);
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (std::int64_t i = 0; i < count; ++i) buffer.set(i, uniform(generator));
    return buffer;
  }

  [[nodiscard]] double operator[](std::int64_t i) const { return get(data(), dtype_, i); }
  void set(std::int64_t i, double value) { testing::set(data(), dtype_, i, value); }
  [[nodiscard]] std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.bytes_ == b.bytes_; }

 private:
  std::int64_t count_;
  DType dtype_;
  Bytes bytes_;
};

/// Rounding error of one stored value relative to its size.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

/// Allowed error of a stored sum of `terms` products whose magnitudes add up to `magnitude`.
inline double tolerance(DType stored, double terms, double magnitude) {
  const double summation = stored == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
  return magnitude * ((terms + 4) * summation + 2 * unit_roundoff(stored)) +
         (is_half(stored) ? 1e-7 : 0);
}

}  // namespace demi::cpu::testing
