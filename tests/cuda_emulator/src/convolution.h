// 2-D convolution and its gradients on dense arrays, channels last.
#pragma once

#include <array>
#include <cstdint>

namespace cuda_emulator {

/// x is [n, h, w, c], y [n, oh, ow, k], the filter [k, r, s, c / groups]; dx, dy, dw as these.
/// Positions outside x are zeros; the padding after follows from oh and ow.
struct Convolution {
  std::int64_t n, h, w, c;
  std::int64_t k, r, s;
  std::int64_t oh, ow;
  std::int64_t groups;
  std::array<std::int64_t, 2> strides, pad_before, dilation;
};

/// Cross-correlation, computed in T (float or double); the result is added to y.
template <class T>
void convolve(const Convolution& shape, const T* x, const T* filter, T* y);

/// Added to dx.
template <class T>
void convolve_backward_data(const Convolution& shape, const T* dy, const T* filter, T* dx);

/// Added to dw.
template <class T>
void convolve_backward_filter(const Convolution& shape, const T* x, const T* dy, T* dw);

}  // namespace cuda_emulator
