// Operands of the kernel tests: values of any floating dtype, read back as double, and references
// to compare them with. The loops are in the .cpp: the tests themselves are not optimised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <demi/dtype.h>

namespace demi::cpu::testing {

/// 64-byte aligned bytes, at first all 0xff: NaN in every floating dtype.
class Bytes {
 public:
  explicit Bytes(std::size_t size);
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  friend bool operator==(const Bytes& a, const Bytes& b);

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> data_;
};

/// A tensor of `count` elements.
class Buffer {
 public:
  Buffer(std::int64_t count, DType dtype);
  /// Uniform in [-1, 1], rounded to the dtype.
  static Buffer random(std::int64_t count, DType dtype, unsigned seed);
  static Buffer of(const std::vector<double>& values, DType dtype);

  [[nodiscard]] double operator[](std::int64_t i) const;
  void set(std::int64_t i, double value);
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// Compares bits.
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.bytes_ == b.bytes_; }

 private:
  std::int64_t count_;
  DType dtype_;
  Bytes bytes_;
};

/// A result and, per element, the sum of the magnitudes of its terms.
struct Reference {
  explicit Reference(std::int64_t count)
      : values(static_cast<std::size_t>(count)), magnitudes(static_cast<std::size_t>(count)) {}
  void add(std::int64_t i, double term);
  /// max(values, 0).
  void relu();

  std::vector<double> values;
  std::vector<double> magnitudes;
};

/// Expects every element to be as near to the reference as sums of `terms` products, rounded to the
/// buffer's dtype, are.
void expect_close(const Buffer& got, const Reference& wanted, std::int64_t terms);

}  // namespace demi::cpu::testing
