#include <demi/tensor.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include <demi/error.h>

#include "src/core/check.h"
#include "src/core/convert_element.h"
#include "src/core/dispatch.h"
#include "src/core/float16_convert.h"

namespace demi {
namespace {

constexpr std::align_val_t kAlignment{64};

template <class From, class To>
void convert_array(const From* from, To* to, std::int64_t count) {
  constexpr bool kHalfAndFloat = (internal::is_half_type<From> && std::is_same_v<To, float>) ||
                                 (internal::is_half_type<To> && std::is_same_v<From, float>);
  if constexpr (kHalfAndFloat) {
    internal::convert(from, to, count);
  } else {
    std::transform(from, from + count, to, internal::convert_element<To, From>);
  }
}

std::string describe(const Shape& shape, DType dtype) {
  return shape.to_string() + " " + std::string(demi::to_string(dtype));
}

}  // namespace

void Tensor::AlignedDelete::operator()(void* pointer) const {
  ::operator delete(pointer, kAlignment);
}

Tensor::Tensor() : shape_{0} {}

Tensor::Tensor(Shape shape, DType dtype) : shape_(shape), dtype_(dtype) {
  const std::size_t count = static_cast<std::size_t>(shape_.elements());
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / size_of(dtype)) {
    throw OutOfMemory("[tensor] " + describe(shape_, dtype_) + " exceeds the address space.");
  }
  const std::size_t wanted = count * size_of(dtype);
  if (wanted == 0) return;
  storage_.reset(::operator new(wanted, kAlignment, std::nothrow));
  if (storage_ == nullptr) {
    throw OutOfMemory("[tensor] could not allocate " + std::to_string(wanted) + " bytes for " +
                      describe(shape_, dtype_) + ".");
  }
  std::memset(storage_.get(), 0, wanted);
}

Tensor::Tensor(Tensor&& other) noexcept
    : shape_(std::exchange(other.shape_, Shape{0})),
      dtype_(std::exchange(other.dtype_, DType::kFloat32)),
      storage_(std::move(other.storage_)) {}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  shape_ = std::exchange(other.shape_, Shape{0});
  dtype_ = std::exchange(other.dtype_, DType::kFloat32);
  storage_ = std::move(other.storage_);
  return *this;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, Shape shape) {
  if (static_cast<std::int64_t>(values.size()) != shape.elements()) {
    internal::fail_argument("tensor", "expected " + std::to_string(shape.elements()) +
                                          " values for shape " + shape.to_string() +
                                          ". Received: " + std::to_string(values.size()) + ".");
  }
  Tensor result(shape, dtype_of<T>);
  std::copy(values.begin(), values.end(), result.data<T>().begin());
  return result;
}

Tensor Tensor::full(Shape shape, double value, DType dtype) {
  Tensor result(shape, dtype);
  internal::dispatch(dtype, [&]<class T> {
    std::ranges::fill(result.data<T>(), internal::convert_element<T>(value));
  });
  return result;
}

std::size_t Tensor::bytes() const {
  return static_cast<std::size_t>(elements()) * size_of(dtype_);
}

template <class T>
std::span<const T> Tensor::data() const {
  if (dtype_of<T> != dtype_) {
    internal::fail_argument("tensor", "expected data<T>() with the T that stores " +
                                          std::string(demi::to_string(dtype_)) +
                                          ". Received: the one for " +
                                          std::string(demi::to_string(dtype_of<T>)) + ".");
  }
  return {static_cast<const T*>(storage_.get()), static_cast<std::size_t>(elements())};
}

template <class T>
std::span<T> Tensor::data() {
  const std::span<const T> view = std::as_const(*this).template data<T>();
  return {const_cast<T*>(view.data()), view.size()};
}

double Tensor::item() const {
  if (elements() != 1) {
    internal::fail_argument(
        "tensor", "expected one element for item(). Received: shape " + shape_.to_string() + ".");
  }
  return at(0);
}

double Tensor::at(std::int64_t flat_index) const {
  if (flat_index < 0 || flat_index >= elements()) {
    internal::fail_argument("tensor", "expected an index below " + std::to_string(elements()) +
                                          " for shape " + shape_.to_string() +
                                          ". Received: " + std::to_string(flat_index) + ".");
  }
  return internal::dispatch(dtype_, [&]<class T> {
    return internal::convert_element<double>(data<T>()[static_cast<std::size_t>(flat_index)]);
  });
}

Tensor Tensor::clone() const {
  return to(dtype_);
}

Tensor Tensor::to(DType dtype) const {
  Tensor result(shape_, dtype);
  if (dtype == dtype_) {
    if (bytes() > 0) std::memcpy(result.raw(), raw(), bytes());
    return result;
  }
  internal::dispatch(dtype_, [&]<class From> {
    internal::dispatch(dtype, [&]<class To> {
      convert_array(data<From>().data(), result.data<To>().data(), elements());
    });
  });
  return result;
}

Tensor Tensor::reshaped(Shape shape) && {
  if (shape.elements() != elements()) {
    internal::fail_argument("tensor", "expected a shape of " + std::to_string(elements()) +
                                          " elements, to reshape " + shape_.to_string() +
                                          ". Received: " + shape.to_string() + ".");
  }
  Tensor result = std::move(*this);
  result.shape_ = shape;
  return result;
}

Tensor Tensor::slice(std::int64_t first, std::int64_t count) const {
  if (shape_.rank() == 0) {
    internal::fail_argument("tensor", "expected at least one dimension to slice. Received: [].");
  }
  const std::int64_t rows = shape_[0];
  if (first < 0 || count < 0 || first > rows - count) {
    internal::fail_argument("tensor", "expected rows within [0, " + std::to_string(rows) +
                                          ") of shape " + shape_.to_string() + ". Received: [" +
                                          std::to_string(first) + ", " +
                                          std::to_string(first + count) + ").");
  }
  Shape sliced = shape_;
  sliced.set(0, count);
  Tensor result(sliced, dtype_);
  if (result.bytes() > 0) {
    const std::size_t row_bytes = bytes() / static_cast<std::size_t>(rows);
    std::memcpy(result.raw(),
                static_cast<const std::byte*>(raw()) + row_bytes * static_cast<std::size_t>(first),
                result.bytes());
  }
  return result;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.to_string();
}

#define DEMI_INSTANTIATE(T)                                          \
  template Tensor Tensor::from<T>(std::span<const T> values, Shape); \
  template std::span<const T> Tensor::data<T>() const;               \
  template std::span<T> Tensor::data<T>();
DEMI_INSTANTIATE(float)
DEMI_INSTANTIATE(double)
DEMI_INSTANTIATE(Float16)
DEMI_INSTANTIATE(BFloat16)
DEMI_INSTANTIATE(std::int32_t)
DEMI_INSTANTIATE(std::int64_t)
DEMI_INSTANTIATE(std::uint8_t)
DEMI_INSTANTIATE(bool)
#undef DEMI_INSTANTIATE

}  // namespace demi
