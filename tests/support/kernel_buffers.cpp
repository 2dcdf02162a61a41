#include "tests/support/kernel_buffers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

namespace demi::cpu::testing {
namespace {

std::size_t rounded_up(std::size_t size) {
  return (size + 127) / 64 * 64;
}

/// Rounding error of one stored value relative to its size.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

/// Allowed error of a stored sum of `terms` products whose magnitudes add up to `magnitude`.
double tolerance(DType stored, std::int64_t terms, double magnitude) {
  const double summation = unit_roundoff(stored == DType::kFloat64 ? float64 : float32);
  const double subnormal = is_half(stored) ? 1e-7 : 0;
  return magnitude * (static_cast<double>(terms + 4) * summation + 2 * unit_roundoff(stored)) +
         subnormal;
}

}  // namespace

Bytes::Bytes(std::size_t size)
    : size_(size), data_(static_cast<std::byte*>(std::aligned_alloc(64, rounded_up(size)))) {
  std::memset(data_.get(), 0xff, rounded_up(size));
}

void Bytes::Free::operator()(std::byte* p) const {
  std::free(p);
}

bool operator==(const Bytes& a, const Bytes& b) {
  return a.size_ == b.size_ && std::memcmp(a.data(), b.data(), a.size_) == 0;
}

Buffer::Buffer(std::int64_t count, DType dtype)
    : count_(count), dtype_(dtype), bytes_(static_cast<std::size_t>(count) * size_of(dtype)) {}

Buffer Buffer::random(std::int64_t count, DType dtype, unsigned seed) {
  Buffer buffer(count, dtype);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (std::int64_t i = 0; i < count; ++i) buffer.set(i, uniform(generator));
  return buffer;
}

Buffer Buffer::of(const std::vector<double>& values, DType dtype) {
  Buffer buffer(static_cast<std::int64_t>(values.size()), dtype);
  for (std::int64_t i = 0; i < buffer.count(); ++i) {
    buffer.set(i, values[static_cast<std::size_t>(i)]);
  }
  return buffer;
}

double Buffer::operator[](std::int64_t i) const {
  const void* p = data();
  switch (dtype_) {
    case DType::kFloat16:
      return static_cast<float>(static_cast<const Float16*>(p)[i]);
    case DType::kBFloat16:
      return static_cast<float>(static_cast<const BFloat16*>(p)[i]);
    case DType::kFloat64:
      return static_cast<const double*>(p)[i];
    default:
      return static_cast<double>(static_cast<const float*>(p)[i]);
  }
}

void Buffer::set(std::int64_t i, double value) {
  void* p = data();
  const auto narrow = static_cast<float>(value);
  switch (dtype_) {
    case DType::kFloat16:
      static_cast<Float16*>(p)[i] = Float16(narrow);
      return;
    case DType::kBFloat16:
      static_cast<BFloat16*>(p)[i] = BFloat16(narrow);
      return;
    case DType::kFloat64:
      static_cast<double*>(p)[i] = value;
      return;
    default:
      static_cast<float*>(p)[i] = narrow;
      return;
  }
}

std::vector<double> Buffer::values() const {
  std::vector<double> values(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) values[static_cast<std::size_t>(i)] = (*this)[i];
  return values;
}

void Reference::add(std::int64_t i, double term) {
  values[static_cast<std::size_t>(i)] += term;
  magnitudes[static_cast<std::size_t>(i)] += std::fabs(term);
}

void Reference::relu() {
  for (double& value : values) value = value < 0 ? 0 : value;
}

void expect_close(const Buffer& got, const Reference& wanted, std::int64_t terms) {
  ASSERT_EQ(static_cast<std::size_t>(got.count()), wanted.values.size());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double allowed = tolerance(got.dtype(), terms, wanted.magnitudes[at]);
    // Written so that NaN fails.
    if (!(std::fabs(got[i] - wanted.values[at]) <= allowed)) {
      ASSERT_NEAR(got[i], wanted.values[at], allowed) << "at element " << i;
    }
  }
}

}  // namespace demi::cpu::testing
