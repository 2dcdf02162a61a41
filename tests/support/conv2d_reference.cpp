#include "tests/support/conv2d_reference.h"

#include <cmath>

namespace demi::cpu::testing {
namespace {

std::size_t index_of(std::int64_t i) {
  return static_cast<std::size_t>(i);
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

/// Calls f(pooled index, place in the window, output index) for every place of every window.
template <class F>
void for_each_place(const Conv2DProblem& p, const PoolWindow& window, const F& f) {
  const std::int64_t out_w = window.out_w(p.out_w());
  const std::int64_t out_h = window.out_h(p.out_h());
  for (std::int64_t i = 0; i < pooled_count(p, window); ++i) {
    const std::int64_t pixel = i / p.co;
    const std::int64_t n = pixel / out_w / out_h;
    for (std::int64_t place = 0; place < window.size_h * window.size_w; ++place) {
      const std::int64_t row = pixel / out_w % out_h * window.stride_h + place / window.size_w;
      const std::int64_t column = pixel % out_w * window.stride_w + place % window.size_w;
      f(i, place, ((n * p.out_h() + row) * p.out_w() + column) * p.co + i % p.co);
    }
  }
}

}  // namespace

std::int64_t x_count(const Conv2DProblem& p) {
  return p.n * p.h * p.w * p.ci;
}

std::int64_t w_count(const Conv2DProblem& p) {
  return p.kh * p.kw * p.ci / p.groups * p.co;
}

std::int64_t y_count(const Conv2DProblem& p) {
  return p.n * p.out_h() * p.out_w() * p.co;
}

std::int64_t pooled_count(const Conv2DProblem& p, const PoolWindow& window) {
  return p.n * window.out_h(p.out_h()) * window.out_w(p.out_w()) * p.co;
}

Reference reference_forward(const Conv2DProblem& p, const Buffer& x, const Buffer& w,
                            const Buffer& bias) {
  const std::vector<double> xs = x.values();
  const std::vector<double> ws = w.values();
  Reference y(y_count(p));
  for_each_product(p, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    y.add(o, xs[index_of(i)] * ws[index_of(k)]);
  });
  for (std::int64_t o = 0; o < y_count(p); ++o) y.add(o, bias[o % p.co]);
  if (p.activation == Activation::kRelu) y.relu();
  return y;
}

Reference reference_backward_input(const Conv2DProblem& p, const Buffer& w, const Buffer& dy) {
  const std::vector<double> ws = w.values();
  const std::vector<double> dys = dy.values();
  Reference dx(x_count(p));
  for_each_product(p, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    dx.add(i, dys[index_of(o)] * ws[index_of(k)]);
  });
  return dx;
}

Reference reference_backward_filter(const Conv2DProblem& p, const Buffer& x, const Buffer& dy) {
  const std::vector<double> xs = x.values();
  const std::vector<double> dys = dy.values();
  Reference dw(w_count(p));
  for_each_product(p, [&](std::int64_t i, std::int64_t k, std::int64_t o) {
    dw.add(k, dys[index_of(o)] * xs[index_of(i)]);
  });
  return dw;
}

Pooled reference_pool(const Conv2DProblem& p, const PoolWindow& window, const Buffer& values) {
  std::vector<double> best(index_of(pooled_count(p, window)));
  std::vector<std::uint8_t> index(best.size());
  for_each_place(p, window, [&](std::int64_t i, std::int64_t place, std::int64_t o) {
    double& current = best[index_of(i)];
    const double value = values[o];
    if (place == 0 || value > current || (std::isnan(value) && !std::isnan(current))) {
      current = value;
      index[index_of(i)] = static_cast<std::uint8_t>(place);
    }
  });
  return {Buffer::of(best, p.y_dtype), index};
}

Buffer reference_unpool(const Conv2DProblem& p, const PoolWindow& window, const Buffer& g,
                        const std::vector<std::uint8_t>& index) {
  std::vector<double> dy(index_of(y_count(p)));
  for_each_place(p, window, [&](std::int64_t i, std::int64_t place, std::int64_t o) {
    if (index[index_of(i)] == place) dy[index_of(o)] += g[i];
  });
  return Buffer::of(dy, float64);
}

std::vector<Conv2DProblem> many_problems() {
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

std::string describe(const Conv2DProblem& p) {
  return "n h w ci kh kw co " + std::to_string(p.n) + " " + std::to_string(p.h) + " " +
         std::to_string(p.w) + " " + std::to_string(p.ci) + " " + std::to_string(p.kh) + " " +
         std::to_string(p.kw) + " " + std::to_string(p.co) + " groups " + std::to_string(p.groups);
}

}  // namespace demi::cpu::testing
