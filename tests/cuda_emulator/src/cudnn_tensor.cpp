#include "tests/cuda_emulator/src/cudnn_tensor.h"

namespace cuda_emulator {
namespace {

/// body(offset in memory in bytes, offset in the dense array) for all pixels.
template <class Body>
void for_each_pixel(const StridedTensor& tensor, Body&& body) {
  const auto& [n, c, h, w] = tensor.extents;
  const auto& strides = tensor.strides;
  const auto size = static_cast<std::int64_t>(size_of(tensor.format));
  std::int64_t dense = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < h; ++j) {
      for (std::int64_t k = 0; k < w; ++k, dense += c) {
        body((i * strides[0] + j * strides[2] + k * strides[3]) * size, dense);
      }
    }
  }
}

}  // namespace

std::size_t StridedTensor::bytes() const {
  if (count() == 0) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * strides[i];
  return static_cast<std::size_t>(last + 1) * size_of(format);
}

template <class T>
std::vector<T> load_dense(const StridedTensor& tensor, const void* address) {
  const auto* memory = static_cast<const std::byte*>(address);
  std::vector<T> array(static_cast<std::size_t>(tensor.count()));
  for_each_pixel(tensor, [&](std::int64_t offset, std::int64_t dense) {
    load(tensor.format, memory + offset, tensor.extents[1], tensor.strides[1],
         array.data() + dense);
  });
  return array;
}

template <class T>
void store_dense(const StridedTensor& tensor, const std::vector<T>& array, void* address) {
  auto* memory = static_cast<std::byte*>(address);
  for_each_pixel(tensor, [&](std::int64_t offset, std::int64_t dense) {
    store(tensor.format, array.data() + dense, tensor.extents[1], tensor.strides[1],
          memory + offset);
  });
}

template std::vector<float> load_dense(const StridedTensor&, const void*);
template std::vector<double> load_dense(const StridedTensor&, const void*);
template void store_dense(const StridedTensor&, const std::vector<float>&, void*);
template void store_dense(const StridedTensor&, const std::vector<double>&, void*);

}  // namespace cuda_emulator
