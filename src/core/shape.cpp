#include <demi/shape.h>

#include <algorithm>

#include "src/core/check.h"

namespace demi {
namespace {

std::string list_of(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += dims[i] == Shape::kUnknown ? "None" : std::to_string(dims[i]);
  }
  return text + "]";
}

void check_extent(std::int64_t extent, const std::string& received) {
  if (extent < Shape::kUnknown) {
    internal::fail_argument(
        "shape", "expected extents >= 0, or -1 for an unknown one. Received: " + received + ".");
  }
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    internal::fail_argument(
        "shape", "expected at most 8 dimensions. Received: " + std::to_string(dims.size()) +
                     " in " + list_of(dims) + ".");
  }
  for (const std::int64_t extent : dims) check_extent(extent, list_of(dims));
  std::copy(dims.begin(), dims.end(), dims_.begin());
  rank_ = static_cast<int>(dims.size());
}

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(const std::vector<std::int64_t>& dims)
    : Shape(std::span<const std::int64_t>(dims.data(), dims.size())) {}

std::int64_t Shape::operator[](int axis) const {
  return dims_[static_cast<std::size_t>(normalize_axis(axis))];
}

void Shape::set(int axis, std::int64_t extent) {
  check_extent(extent, std::to_string(extent));
  dims_[static_cast<std::size_t>(normalize_axis(axis))] = extent;
}

int Shape::normalize_axis(int axis) const {
  if (axis < -rank_ || axis >= rank_) {
    const std::string expected = rank_ == 0
                                     ? "no axis, for a scalar"
                                     : "an axis in [" + std::to_string(-rank_) + ", " +
                                           std::to_string(rank_ - 1) + "] for shape " + to_string();
    internal::fail_argument("shape",
                            "expected " + expected + ". Received: " + std::to_string(axis) + ".");
  }
  return axis < 0 ? axis + rank_ : axis;
}

std::int64_t Shape::elements() const {
  if (!is_known()) {
    internal::fail_argument("shape", "expected known extents. Received: " + to_string() + ".");
  }
  std::int64_t product = 1;
  bool overflow = false;
  for (const std::int64_t extent : dims()) {
    overflow = __builtin_mul_overflow(product, extent, &product) || overflow;
  }
  if (std::find(begin(), end(), 0) != end()) return 0;
  if (overflow) {
    internal::fail_argument("shape",
                            "expected fewer than 2^63 elements. Received: " + to_string() + ".");
  }
  return product;
}

bool Shape::is_known() const {
  return std::find(begin(), end(), kUnknown) == end();
}

Shape Shape::with_front(std::int64_t extent) const {
  std::vector<std::int64_t> extents{extent};
  extents.insert(extents.end(), begin(), end());
  return Shape(extents);
}

Shape Shape::without_front() const {
  if (rank_ == 0) {
    internal::fail_argument("shape", "expected at least one dimension to drop. Received: [].");
  }
  return Shape(dims().subspan(1));
}

std::string Shape::to_string() const {
  return list_of(dims());
}

bool operator==(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

Shape broadcast(const Shape& a, const Shape& b, const char* where) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  for (int axis = -1; axis >= -shorter.rank(); --axis) {
    const std::int64_t x = longer[axis];
    const std::int64_t y = shorter[axis];
    if (x == y || y == 1 || (y == Shape::kUnknown && x != 1)) continue;
    if (x != 1 && x != Shape::kUnknown) {
      internal::fail_argument(where,
                              "expected shapes that broadcast: extents equal or 1, counted from "
                              "the last. Received: " +
                                  a.to_string() + " and " + b.to_string() + ".");
    }
    result.set(axis, y);
  }
  return result;
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.to_string();
}

}  // namespace demi
