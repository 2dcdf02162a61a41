// Memory for the operands of the kernel benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <demi/dtype.h>

namespace demi::benchmarks {

/// 64-byte aligned elements: floating-point ones uniform in [-0.5, 0.5), bytes in [0, 4).
class Operand {
 public:
  Operand(std::int64_t count, DType dtype)
      : data_(static_cast<std::byte*>(std::aligned_alloc(
            64, (static_cast<std::size_t>(count) * size_of(dtype) + 127) / 64 * 64))) {
    std::uint32_t random = 12345;
    for (std::int64_t i = 0; i < count; ++i) {
      random = random * 1664525 + 1013904223;
      const float value = static_cast<float>(random >> 8) * 0x1p-24F - 0.5F;
      switch (dtype) {
        case DType::kFloat16:
          typed<Float16>()[i] = Float16(value);
          break;
        case DType::kBFloat16:
          typed<BFloat16>()[i] = BFloat16(value);
          break;
        case DType::kUint8:
          typed<std::uint8_t>()[i] = static_cast<std::uint8_t>(random >> 30);
          break;
        default:
          typed<float>()[i] = value;
          break;
      }
    }
  }

  template <class T>
  [[nodiscard]] T* typed() const {
    return reinterpret_cast<T*>(data_.get());
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace demi::benchmarks
