// Operand: an input of an elementwise kernel, read block by block in the order of the output's
// elements, broadcast and converted to the type of the computation on the way.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "src/core/broadcast_layout.h"
#include "src/core/tensor_type.h"

namespace demi::cpu {

/// Elements that elementwise kernels handle at a time; their buffers stay in the first-level cache.
inline constexpr std::int64_t kElementBlock = 512;

/// Compute is the type of the computation.
template <class Compute>
class Operand {
 public:
  Operand() = default;
  Operand(const TensorType& type, const Shape& output)
      : layout_(broadcast_layout(type.shape, output)),
        size_(static_cast<std::int64_t>(size_of(type.dtype))),
        in_place_(type.dtype == dtype_of<Compute>),
        load_(converter(type.dtype, dtype_of<Compute>)) {}

  /// Reads the operand at `data` for one chunk. Not for sharing between threads.
  class Reader {
   public:
    Reader(const Operand& operand, const void* data)
        : operand_(operand), data_(static_cast<const char*>(data)) {
      const BroadcastLayout& layout = operand.layout_;
      if (layout.is_scalar()) {
        operand.load_(data, buffer_, 1);
        std::fill(buffer_ + 1, buffer_ + kElementBlock, buffer_[0]);
      } else if (operand.is_short_period()) {
        const std::int64_t period = layout.extent[1];
        operand.load_(data, buffer_, period);
        for (std::int64_t i = period; i < 2 * kElementBlock; ++i) buffer_[i] = buffer_[i - period];
      }
    }

    /// The operands of output elements [begin, begin + count), count ≤ kElementBlock. Valid until
    /// the next call.
    [[nodiscard]] const Compute* block(std::int64_t begin, std::int64_t count) {
      const BroadcastLayout& layout = operand_.layout_;
      if (layout.is_scalar()) return buffer_;
      if (operand_.is_short_period()) return buffer_ + begin % layout.extent[1];
      if (layout.is_contiguous()) return run(begin, count);
      return strided(begin, count);
    }

   private:
    const Compute* run(std::int64_t offset, std::int64_t count) {
      const char* from = data_ + offset * operand_.size_;
      if (operand_.in_place_) return reinterpret_cast<const Compute*>(from);
      operand_.load_(from, buffer_, count);
      return buffer_;
    }

    const Compute* strided(std::int64_t begin, std::int64_t count) {
      const BroadcastLayout& layout = operand_.layout_;
      const int last = layout.rank - 1;
      std::array<std::int64_t, Shape::kMaxRank> index;
      std::int64_t offset = 0;
      for (std::int64_t rest = begin, axis = last; axis >= 0; --axis) {
        const auto k = static_cast<std::size_t>(axis);
        index[k] = rest % layout.extent[k];
        rest /= layout.extent[k];
        offset += index[k] * layout.stride[k];
      }
      const auto inner = static_cast<std::size_t>(last);
      for (std::int64_t done = 0; done < count;) {
        const std::int64_t n = std::min(layout.extent[inner] - index[inner], count - done);
        if (layout.stride[inner] == 1) {
          if (n == count) return run(offset, count);
          operand_.load_(data_ + offset * operand_.size_, buffer_ + done, n);
        } else {
          operand_.load_(data_ + offset * operand_.size_, buffer_ + done, 1);
          std::fill(buffer_ + done + 1, buffer_ + done + n, buffer_[done]);
        }
        done += n;
        // The run ends at the end of the inner axis, or the block does.
        offset -= index[inner] * layout.stride[inner];
        index[inner] = 0;
        for (int axis = last - 1; axis >= 0; --axis) {
          const auto k = static_cast<std::size_t>(axis);
          offset += layout.stride[k];
          if (++index[k] < layout.extent[k]) break;
          offset -= layout.extent[k] * layout.stride[k];
          index[k] = 0;
        }
      }
      return buffer_;
    }

    const Operand& operand_;
    const char* data_;
    alignas(64) Compute buffer_[2 * kElementBlock];
  };

 private:
  [[nodiscard]] bool is_short_period() const {
    return layout_.is_periodic() && layout_.extent[1] <= kElementBlock;
  }

  BroadcastLayout layout_;
  std::int64_t size_ = 0;
  bool in_place_ = false;
  ConvertFn load_ = nullptr;
};

}  // namespace demi::cpu
