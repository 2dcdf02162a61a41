// Size2D: height and width of windows, strides and dilations.
#pragma once

#include <concepts>
#include <cstdint>

namespace demi {

/// Written as `3` or `{3, 5}`.
struct Size2D {
  std::int64_t height = 1;
  std::int64_t width = 1;

  template <std::integral T>
  constexpr Size2D(T both)  // NOLINT(google-explicit-constructor): one number stands for both
      : height(static_cast<std::int64_t>(both)), width(static_cast<std::int64_t>(both)) {}
  constexpr Size2D(std::int64_t h, std::int64_t w) : height(h), width(w) {}

  friend bool operator==(const Size2D&, const Size2D&) = default;
};

}  // namespace demi
