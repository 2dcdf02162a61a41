// Convolutions by their definition, in double, and the problems they are compared on.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cpu/conv2d.h"
#include "tests/kernels/cpu/buffers.h"

namespace demi::cpu::testing {

/// A result and, per element, the sum of the magnitudes of its terms.
struct Reference {
  explicit Reference(std::int64_t count)
      : values(static_cast<std::size_t>(count)), magnitudes(static_cast<std::size_t>(count)) {}
  void add(std::int64_t i, double term) {
    values[static_cast<std::size_t>(i)] += term;
    magnitudes[static_cast<std::size_t>(i)] += std::fabs(term);
  }
  std::vector<double> values;
  std::vector<double> magnitudes;
};

inline std::int64_t x_count(const Conv2DProblem& p) {
  return p.n * p.h * p.w * p.ci;
}
inline std::int64_t w_count(const Conv2DProblem& p) {
  return p.kh * p.kw * p.ci / p.groups * p.co;
}
inline std::int64_t y_count(const Conv2DProblem& p) {
  return p.n * p.out_h() * p.out_w() * p.co;
}

/// Calls f(x index, w index, y index) for every product of the convolution.
template <class F>
void for_each_product(const Conv2DProblem& p, const F& f) {
  const std::int64_t cg = p.ci / p.groups;
  for (std::int64_t n = 0; n < p.n; ++n)
    for (std::int64_t oy = 0; oy < p.out_h(); ++oy)
      for (std::int64_t ox = 0; ox < p.out_w(); ++ox)
        for (std::int64_t ky = 0; ky < p.kh; ++ky)
          for (std::int64_t kx = 0; kx < p.kw; ++kx) {
            const std::int64_t iy = oy * p.stride_h - p.pad_top + ky * p.dilation_h;
            const std::int64_t ix = ox * p.stride_w - p.pad_left + kx * p.dilation_w;
            if (iy < 0 || iy >= p.h || ix < 0 || ix >= p.w) continue;
            for (std::int64_t c = 0; c < cg; ++c)
              for (std::int64_t o = 0; o < p.co; ++o) {
                const std::int64_t group = o / (p.co / p.groups);
                f(((n * p.h + iy) * p.w + ix) * p.ci + group * cg + c,
                  ((ky * p.kw + kx) * cg + c) * p.co + o,
                  ((n * p.out_h() + oy) * p.out_w() + ox) * p.co + o);
              }
          }
}

inline Reference reference_forward(const Conv2DProblem& p, const Buffer& x, const Buffer& w,
                                   const Buffer& bias) {
  Reference y(y_count(p));
  for_each_product(p,
                   [&](std::int64_t i, std::int64_t k, std::int64_t o) { y.add(o, x[i] * w[k]); });
  for (std::int64_t o = 0; o < y_count(p); ++o) y.add(o, bias[o % p.co]);
  if (p.activation == Activation::kRelu) {
    for (double& value : y.values) value = value < 0 ? 0 : value;
  }
  return y;
}

inline Reference reference_backward_input(const Conv2DProblem& p, const Buffer& w,
                                          const Buffer& dy) {
  Reference dx(x_count(p));
  for_each_product(
      p, [&](std::int64_t i, std::int64_t k, std::int64_t o) { dx.add(i, dy[o] * w[k]); });
  return dx;
}

inline Reference reference_backward_filter(const Conv2DProblem& p, const Buffer& x,
                                           const Buffer& dy) {
  Reference dw(w_count(p));
  for_each_product(
      p, [&](std::int64_t i, std::int64_t k, std::int64_t o) { dw.add(k, dy[o] * x[i]); });
  return dw;
}

/// Sizes and options that meet every path: odd channels, one pixel, empty batch, strides, dilation,
/// groups, asymmetric padding, several strips and blocks.
inline std::vector<Conv2DProblem> many_problems() {
  return {
      {.n = 2, .h = 7, .w = 6, .ci = 1, .kh = 3, .kw = 3, .co = 32},
      {.n = 3,
       .h = 9,
       .w = 9,
       .ci = 3,
       .kh = 3,
       .kw = 3,
       .co = 16,
       .pad_top = 1,
       .pad_bottom = 1,
       .pad_left = 1,
       .pad_right = 1},
      {.n = 2, .h = 8, .w = 7, .ci = 35, .kh = 3, .kw = 2, .co = 3},
      {.n = 1, .h = 6, .w = 5, .ci = 32, .kh = 3, .kw = 3, .co = 64},
      {.n = 5, .h = 1, .w = 1, .ci = 24, .co = 33},
      {.n = 5,
       .h = 1,
       .w = 1,
       .ci = 4,
       .kh = 3,
       .kw = 3,
       .co = 8,
       .pad_top = 1,
       .pad_bottom = 1,
       .pad_left = 1,
       .pad_right = 1},
      {.n = 0, .h = 5, .w = 5, .ci = 4, .kh = 3, .kw = 3, .co = 8},
      {.n = 2,
       .h = 11,
       .w = 10,
       .ci = 5,
       .kh = 3,
       .kw = 3,
       .co = 17,
       .stride_h = 2,
       .stride_w = 2,
       .pad_top = 0,
       .pad_bottom = 1,
       .pad_left = 1,
       .pad_right = 0},
      {.n = 2,
       .h = 12,
       .w = 14,
       .ci = 8,
       .kh = 5,
       .kw = 3,
       .co = 24,
       .stride_h = 3,
       .stride_w = 2,
       .pad_top = 2,
       .pad_bottom = 1,
       .pad_left = 0,
       .pad_right = 3},
      {.n = 2, .h = 8, .w = 8, .ci = 6, .co = 10, .stride_h = 2, .stride_w = 2},
      {.n = 1,
       .h = 12,
       .w = 13,
       .ci = 7,
       .kh = 3,
       .kw = 3,
       .co = 9,
       .dilation_h = 2,
       .dilation_w = 3,
       .pad_top = 2,
       .pad_bottom = 2,
       .pad_left = 3,
       .pad_right = 1},
      {.n = 1,
       .h = 15,
       .w = 12,
       .ci = 4,
       .kh = 3,
       .kw = 3,
       .co = 4,
       .stride_h = 2,
       .stride_w = 3,
       .dilation_h = 3,
       .dilation_w = 2,
       .pad_top = 1,
       .pad_left = 2},
      {.n = 2,
       .h = 6,
       .w = 7,
       .ci = 12,
       .kh = 3,
       .kw = 3,
       .co = 18,
       .groups = 3,
       .pad_top = 1,
       .pad_bottom = 1,
       .pad_left = 1,
       .pad_right = 1},
      {.n = 2,
       .h = 6,
       .w = 6,
       .ci = 8,
       .kh = 3,
       .kw = 3,
       .co = 8,
       .stride_h = 2,
       .stride_w = 2,
       .groups = 8},
      {.n = 1, .h = 24, .w = 40, .ci = 70, .kh = 2, .kw = 1, .co = 2, .pad_top = 1},
      {.n = 1, .h = 5, .w = 4, .ci = 130, .kh = 2, .kw = 3, .co = 20, .pad_left = 1},
      {.n = 1, .h = 3, .w = 3, .ci = 430, .co = 40},
      {.n = 2,
       .h = 4,
       .w = 4,
       .ci = 2,
       .kh = 2,
       .kw = 2,
       .co = 5,
       .pad_top = 3,
       .pad_bottom = 4,
       .pad_left = 5,
       .pad_right = 3},
  };
}

inline std::string describe(const Conv2DProblem& p) {
  return "n h w ci kh kw co " + std::to_string(p.n) + " " + std::to_string(p.h) + " " +
         std::to_string(p.w) + " " + std::to_string(p.ci) + " " + std::to_string(p.kh) + " " +
         std::to_string(p.kw) + " " + std::to_string(p.co) + " groups " + std::to_string(p.groups);
}

struct Tensors {
  explicit Tensors(const Conv2DProblem& p)
      : x(Buffer::random(x_count(p), p.x_dtype, 1)),
        w(Buffer::random(w_count(p), p.w_dtype, 2)),
        bias(Buffer::random(p.co, p.bias_dtype, 3)),
        dy(Buffer::random(y_count(p), p.y_dtype, 4)) {}
  Buffer x;
  Buffer w;
  Buffer bias;
  Buffer dy;
};

inline Buffer forward(const Conv2DProblem& p, const Tensors& t, int threads = 2) {
  Buffer y(y_count(p), p.y_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_forward_workspace_bytes(p, threads));
  conv2d_forward(p, t.x.data(), t.w.data(), t.bias.data(), y.data(), workspace.data(), pool);
  return y;
}

inline void expect_close(const Buffer& got, const Reference& wanted, double terms) {
  ASSERT_EQ(static_cast<std::size_t>(got.count()), wanted.values.size());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_NEAR(got[i], wanted.values[at], tolerance(got.dtype(), terms, wanted.magnitudes[at]))
        << "at element " << i;
  }
}

}  // namespace demi::cpu::testing
