// Shape: the extents of a tensor, at most eight of them, stored inline.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace demi {

/// Extents in row-major order: the last dimension is contiguous. An extent of kUnknown (-1, shown
/// as None) stands for the batch size of a model that has not been given one.
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  static constexpr std::int64_t kUnknown = -1;

  /// The shape of a scalar: rank 0, one element.
  Shape() = default;
  /// Throws std::invalid_argument for more than kMaxRank extents or an extent below -1.
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);
  explicit Shape(const std::vector<std::int64_t>& dims);

  [[nodiscard]] int rank() const { return rank_; }
  /// Extent of dimension `axis`; a negative axis counts from the end. Throws std::invalid_argument.
  [[nodiscard]] std::int64_t operator[](int axis) const;
  /// Sets one extent, same axis rule.
  void set(int axis, std::int64_t extent);
  /// `axis` counted from the front. Throws std::invalid_argument when out of range.
  [[nodiscard]] int normalize_axis(int axis) const;

  /// Product of the extents; throws std::invalid_argument if one is unknown.
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] bool is_known() const;

  [[nodiscard]] std::span<const std::int64_t> dims() const {
    return {dims_.data(), static_cast<std::size_t>(rank_)};
  }
  [[nodiscard]] auto begin() const { return dims().begin(); }
  [[nodiscard]] auto end() const { return dims().end(); }

  /// The same shape with an extent put in front, or without its first one (rank must be ≥ 1).
  [[nodiscard]] Shape with_front(std::int64_t extent) const;
  [[nodiscard]] Shape without_front() const;

  /// "[32, 28, 28, 1]", with "None" for unknown extents.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

/// NumPy broadcasting of two shapes. Throws std::invalid_argument "[where] …" if they do not fit.
[[nodiscard]] Shape broadcast(const Shape& a, const Shape& b, const char* where);

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace demi
