// Tensor::to_string.
#include <string>

#include <fmt/format.h>

#include <demi/tensor.h>

#include "src/core/dispatch.h"
#include "src/core/float16_inline.h"

namespace demi {
namespace {

constexpr std::int64_t kShownAtEachEnd = 3;
constexpr std::int64_t kLongestShownWhole = 8;

/// The fewest digits that tell every value of T from its neighbours.
template <class T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return fmt::format("{:.5g}", internal::to_float(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return fmt::format("{:.4g}", internal::to_float(value));
  } else {
    return fmt::format("{}", value);
  }
}

/// Appends the block of `values` whose first dimension is `axis` and whose first element is
/// `offset`.
template <class T>
void append(std::string& text, std::span<const T> values, const Shape& shape, int axis,
            std::int64_t offset) {
  if (axis == shape.rank()) {
    text += element_text(values[static_cast<std::size_t>(offset)]);
    return;
  }
  const std::int64_t extent = shape[axis];
  const std::int64_t stride =
      Shape(shape.dims().subspan(static_cast<std::size_t>(axis) + 1)).elements();
  text += "[";
  for (std::int64_t i = 0; i < extent; ++i) {
    if (i > 0) text += ", ";
    if (extent > kLongestShownWhole && i == kShownAtEachEnd) {
      text += "…, ";
      i = extent - kShownAtEachEnd;
    }
    append(text, values, shape, axis + 1, offset + i * stride);
  }
  text += "]";
}

}  // namespace

std::string Tensor::to_string() const {
  std::string values;
  internal::dispatch(dtype_, [&]<class T> { append(values, data<T>(), shape_, 0, 0); });
  return fmt::format("Tensor({}, {}, {})", shape_.to_string(), demi::to_string(dtype_), values);
}

}  // namespace demi
