#include "tests/cuda_emulator/src/convolution.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/cuda_emulator/src/product.h"

namespace cuda_emulator {
namespace {

/// Output pixels whose patches are in memory at a time.
constexpr std::int64_t kBlockPixels = 512;

std::int64_t patch_size(const Convolution& shape) {
  return shape.r * shape.s * (shape.c / shape.groups);
}

/// Calls visit(patch offset, x offset) for each run of c / groups elements that the patch of an
/// output pixel has inside x.
template <class Visit>
void for_each_run(const Convolution& shape, std::int64_t pixel, std::int64_t group, Visit&& visit) {
  const std::int64_t channels = shape.c / shape.groups;
  const std::int64_t image = pixel / (shape.oh * shape.ow);
  const std::int64_t top = pixel / shape.ow % shape.oh * shape.strides[0] - shape.pad_before[0];
  const std::int64_t left = pixel % shape.ow * shape.strides[1] - shape.pad_before[1];
  for (std::int64_t i = 0; i < shape.r; ++i) {
    const std::int64_t y = top + i * shape.dilation[0];
    if (y < 0 || y >= shape.h) continue;
    for (std::int64_t j = 0; j < shape.s; ++j) {
      const std::int64_t x = left + j * shape.dilation[1];
      if (x < 0 || x >= shape.w) continue;
      visit((i * shape.s + j) * channels,
            ((image * shape.h + y) * shape.w + x) * shape.c + group * channels);
    }
  }
}

/// The patches of pixels [first, first + count), one row each.
template <class T>
void gather_patches(const Convolution& shape, const T* x, std::int64_t first, std::int64_t count,
                    std::int64_t group, std::vector<T>& patches) {
  const std::int64_t size = patch_size(shape);
  const std::int64_t channels = shape.c / shape.groups;
  patches.assign(static_cast<std::size_t>(count * size), T{0});
  for (std::int64_t p = 0; p < count; ++p) {
    T* row = patches.data() + p * size;
    for_each_run(shape, first + p, group, [&](std::int64_t to, std::int64_t from) {
      std::copy_n(x + from, channels, row + to);
    });
  }
}

/// body(group, first pixel, number of pixels) for all blocks of all groups.
template <class Body>
void for_each_block(const Convolution& shape, Body&& body) {
  const std::int64_t pixels = shape.n * shape.oh * shape.ow;
  for (std::int64_t group = 0; group < shape.groups; ++group) {
    for (std::int64_t first = 0; first < pixels; first += kBlockPixels) {
      body(group, first, std::min(kBlockPixels, pixels - first));
    }
  }
}

}  // namespace

template <class T>
void convolve(const Convolution& shape, const T* x, const T* filter, T* y) {
  const std::int64_t size = patch_size(shape), filters = shape.k / shape.groups;
  std::vector<T> patches;
  for_each_block(shape, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    gather_patches(shape, x, first, count, group, patches);
    multiply_add<T>({count, filters, size}, {patches.data(), size, 1},
                    {filter + group * filters * size, 1, size},
                    y + first * shape.k + group * filters, shape.k);
  });
}

template <class T>
void convolve_backward_data(const Convolution& shape, const T* dy, const T* filter, T* dx) {
  const std::int64_t size = patch_size(shape), filters = shape.k / shape.groups;
  const std::int64_t channels = shape.c / shape.groups;
  std::vector<T> patches;
  for_each_block(shape, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    patches.assign(static_cast<std::size_t>(count * size), T{0});
    multiply_add<T>({count, size, filters}, {dy + first * shape.k + group * filters, shape.k, 1},
                    {filter + group * filters * size, size, 1}, patches.data(), size);
    for (std::int64_t p = 0; p < count; ++p) {
      const T* row = patches.data() + p * size;
      for_each_run(shape, first + p, group, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = 0; i < channels; ++i) dx[to + i] += row[from + i];
      });
    }
  });
}

template <class T>
void convolve_backward_filter(const Convolution& shape, const T* x, const T* dy, T* dw) {
  const std::int64_t size = patch_size(shape), filters = shape.k / shape.groups;
  std::vector<T> patches;
  for_each_block(shape, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    gather_patches(shape, x, first, count, group, patches);
    multiply_add<T>({filters, size, count}, {dy + first * shape.k + group * filters, 1, shape.k},
                    {patches.data(), size, 1}, dw + group * filters * size, size);
  });
}

template void convolve(const Convolution&, const float*, const float*, float*);
template void convolve(const Convolution&, const double*, const double*, double*);
template void convolve_backward_data(const Convolution&, const float*, const float*, float*);
template void convolve_backward_data(const Convolution&, const double*, const double*, double*);
template void convolve_backward_filter(const Convolution&, const float*, const float*, float*);
template void convolve_backward_filter(const Convolution&, const double*, const double*, double*);

}  // namespace cuda_emulator
