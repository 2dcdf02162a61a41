// Cuts a kernel's workspace into 64-byte aligned pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace demi::cpu {

/// Collects pieces; the same sequence of calls gives the size beforehand and the offsets later.
class WorkspaceLayout {
 public:
  /// Offset in bytes of a piece of `count` elements of type T.
  template <class T>
  std::size_t reserve(std::int64_t count) {
    const std::size_t offset = bytes_;
    bytes_ += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return offset;
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// The piece at `offset`.
template <class T>
[[nodiscard]] T* piece(void* workspace, std::size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
}

}  // namespace demi::cpu
