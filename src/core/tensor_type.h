// TensorType: what a value is, without its data.
#pragma once

#include <cstddef>
#include <string>

#include <demi/dtype.h>
#include <demi/shape.h>

namespace demi {

struct TensorType {
  Shape shape;
  DType dtype = DType::kFloat32;

  /// Bytes of the elements, without alignment. Throws std::invalid_argument for unknown extents.
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  }
  /// "float16[128, 10]".
  [[nodiscard]] std::string to_string() const {
    return std::string(demi::to_string(dtype)) + shape.to_string();
  }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

}  // namespace demi
