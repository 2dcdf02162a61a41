// Tensor: host memory of one shape and dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <demi/dtype.h>
#include <demi/shape.h>

namespace demi {

/// Owns the bytes of one row-major array in host memory, aligned to 64 bytes. Move-only: copying an
/// array is said out loud with `clone()`.
class Tensor {
 public:
  /// An empty float32 tensor of shape [0].
  Tensor();
  /// Zero-filled. Throws std::invalid_argument if an extent is unknown, OutOfMemory if it cannot be
  /// allocated.
  Tensor(Shape shape, DType dtype);
  /// The tensor moved from is left empty, as if default-constructed.
  Tensor(Tensor&& other) noexcept;
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  /// Copies `values` (row-major). Throws std::invalid_argument unless values.size() == elements.
  template <class T>
  [[nodiscard]] static Tensor from(std::span<const T> values, Shape shape);
  template <class T>
  [[nodiscard]] static Tensor from(const std::vector<T>& values, Shape shape) {
    return from(std::span<const T>(values), shape);
  }
  /// A scalar (rank 0).
  template <class T>
  [[nodiscard]] static Tensor scalar(T value) {
    return from(std::span<const T>(&value, 1), Shape{});
  }
  /// Every element is `value` converted to `dtype` as `to` does.
  [[nodiscard]] static Tensor full(Shape shape, double value, DType dtype);

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t elements() const { return shape_.elements(); }
  [[nodiscard]] std::size_t bytes() const;

  /// The elements, for reading or writing. Throws std::invalid_argument if T does not store
  /// dtype().
  template <class T>
  [[nodiscard]] std::span<const T> data() const;
  template <class T>
  [[nodiscard]] std::span<T> data();
  [[nodiscard]] const void* raw() const { return storage_.get(); }
  [[nodiscard]] void* raw() { return storage_.get(); }

  /// The only element of a one-element tensor, as a double. Throws std::invalid_argument.
  [[nodiscard]] double item() const;
  /// Element `flat_index` in row-major order, as a double. Throws std::invalid_argument.
  [[nodiscard]] double at(std::int64_t flat_index) const;

  [[nodiscard]] Tensor clone() const;
  /// Converted element by element; also the identity conversion copies. Floating results are
  /// rounded to nearest even, integer results truncated toward zero and saturated (NaN gives 0), a
  /// bool is `value != 0`.
  [[nodiscard]] Tensor to(DType dtype) const;
  /// The same elements under another shape; takes this tensor's storage.
  [[nodiscard]] Tensor reshaped(Shape shape) &&;
  /// Rows [first, first + count) of the first dimension, copied.
  [[nodiscard]] Tensor slice(std::int64_t first, std::int64_t count) const;

  /// "Tensor([2, 2], float32, [[1, 2], [3, 4]])", the middle of long dimensions replaced by "…".
  [[nodiscard]] std::string to_string() const;

 private:
  struct AlignedDelete {
    void operator()(void* pointer) const;
  };
  Shape shape_;
  DType dtype_ = DType::kFloat32;
  std::unique_ptr<void, AlignedDelete> storage_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace demi
