// What the multi-tensor kernels share: where the tensors of a launch are, and blocks of them in the
// dtype that is computed in.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/tensor_chunks.h"
#include "kernels/kernel.h"

namespace demi::cpu {

/// Elements of a chunk, the unit of work of a thread, and of a block, which stays in the L1 cache.
inline constexpr std::int64_t kUpdateGrain = 16384;
inline constexpr std::int64_t kUpdateBlock = 512;

/// One tensor of any floating dtype, read and written as float (double where it is float64).
class Elements {
 public:
  explicit Elements(DType dtype)
      : dtype_(dtype),
        size_(static_cast<std::int64_t>(size_of(dtype))),
        to_float_(converter(dtype, DType::kFloat32)),
        to_double_(converter(dtype, DType::kFloat64)),
        from_float_(converter(DType::kFloat32, dtype)),
        from_double_(converter(DType::kFloat64, dtype)) {}

  [[nodiscard]] DType dtype() const { return dtype_; }

  /// `count` elements from `first` on: in place where they are of type Acc already, else converted
  /// to `buffer`.
  template <class Acc>
  [[nodiscard]] const Acc* load(const void* base, std::int64_t first, std::int64_t count,
                                Acc* buffer) const {
    const char* place = static_cast<const char*>(base) + first * size_;
    if (dtype_ == dtype_of<Acc>) return reinterpret_cast<const Acc*>(place);
    (std::is_same_v<Acc, double> ? to_double_ : to_float_)(place, buffer, count);
    return buffer;
  }
  template <class Acc>
  [[nodiscard]] Acc* load(void* base, std::int64_t first, std::int64_t count, Acc* buffer) const {
    return const_cast<Acc*>(load(static_cast<const void*>(base), first, count, buffer));
  }
  /// The way back after a load of the same elements; `values` is what that returned.
  template <class Acc>
  void store(const Acc* values, void* base, std::int64_t first, std::int64_t count) const {
    if (dtype_ != dtype_of<Acc>) write(values, base, first, count);
  }
  /// Overwrites elements.
  template <class Acc>
  void write(const Acc* values, void* base, std::int64_t first, std::int64_t count) const {
    char* place = static_cast<char*>(base) + first * size_;
    (std::is_same_v<Acc, double> ? from_double_ : from_float_)(values, place, count);
  }

 private:
  DType dtype_;
  std::int64_t size_;
  ConvertFn to_float_, to_double_, from_float_, from_double_;
};

/// Some of a request's tensors.
[[nodiscard]] inline std::vector<Elements> elements_of(std::span<const TensorType> types,
                                                       std::size_t first, std::size_t count) {
  std::vector<Elements> elements;
  for (const TensorType& type : types.subspan(first, count)) elements.emplace_back(type.dtype);
  return elements;
}

/// Calls body(first, count) for the blocks of a chunk.
template <class Body>
void for_blocks(const TensorChunk& chunk, Body&& body) {
  const std::int64_t end = chunk.first + chunk.count;
  for (std::int64_t first = chunk.first; first < end; first += kUpdateBlock) {
    body(first, std::min(kUpdateBlock, end - first));
  }
}

}  // namespace demi::cpu
