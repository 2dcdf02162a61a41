#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/conv2d.h"
#include "tests/kernels/cpu/conv2d_tensors.h"

namespace demi::cpu::testing {
namespace {

Pooled forward_pooled(const Conv2DProblem& p, const PoolWindow& window, const Tensors& t,
                      int threads = 2) {
  const std::int64_t count = pooled_count(p, window);
  Pooled out{Buffer(count, p.y_dtype),
             std::vector<std::uint8_t>(static_cast<std::size_t>(count), 99)};
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_forward_pooled_workspace_bytes(p, window, threads));
  conv2d_forward_pooled(p, window, t.x.data(), t.w.data(), t.bias.data(), out.y.data(),
                        out.index.data(), workspace.data(), pool);
  return out;
}

std::vector<PoolWindow> many_windows() {
  return {{}, {3, 3, 2, 2}, {1, 2, 1, 3}, {2, 3, 3, 1}, {1, 1, 1, 1}};
}

TEST(Conv2DPooled, HasTheBitsOfPoolingAfterwards) {
  for (Conv2DProblem p : many_problems()) {
    SCOPED_TRACE(describe(p));
    for (const PoolWindow& window : many_windows()) {
      if (window.size_h > p.out_h() || window.size_w > p.out_w()) continue;
      for (DType y : {float32, float16, bfloat16, float64}) {
        p.activation = p.activation == Activation::kRelu ? Activation::kNone : Activation::kRelu;
        const bool wide = y == float64;
        p.x_dtype = wide ? float64 : float16;
        p.w_dtype = p.bias_dtype = wide ? float64 : float32;
        p.y_dtype = wide ? float64 : float32;
        const Tensors t(p);
        const Buffer values = forward(p, t);
        p.y_dtype = y;
        const Pooled wanted = reference_pool(p, window, values);
        const Pooled got = forward_pooled(p, window, t);
        ASSERT_TRUE(got.y == wanted.y);
        ASSERT_TRUE(got.index == wanted.index);
      }
    }
  }
}

TEST(Conv2DPooled, FirstNanWinsItsWindow) {
  const Conv2DProblem p{.n = 1, .h = 4, .w = 4, .ci = 1, .co = 8, .activation = Activation::kRelu};
  Tensors t(p);
  t.x.set(1, std::numeric_limits<double>::quiet_NaN());
  t.x.set(4, std::numeric_limits<double>::quiet_NaN());
  const Pooled got = forward_pooled(p, {}, t);
  for (std::int64_t c = 0; c < p.co; ++c) {
    EXPECT_TRUE(std::isnan(got.y[c]));
    EXPECT_EQ(got.index[static_cast<std::size_t>(c)], 1);
    EXPECT_FALSE(std::isnan(got.y[p.co + c]));
  }
}

TEST(Conv2DPooled, TakesNanAndInfinityLikePoolingAfterwards) {
  const double specials[] = {HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN()};
  for (const std::int64_t ci : {1, 9}) {  // pooled in registers, and from memory
    for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
      const Conv2DProblem p{
          .n = 2, .h = 14, .w = 15, .ci = ci, .kh = 3, .kw = 3, .co = 21, .activation = activation};
      Tensors t(p);
      for (std::int64_t i = 3; i < x_count(p); i += 31) t.x.set(i, specials[i % 3]);
      const Pooled wanted = reference_pool(p, {}, forward(p, t));
      const Pooled got = forward_pooled(p, {}, t);
      EXPECT_TRUE(got.index == wanted.index);
      for (std::int64_t i = 0; i < got.y.count(); ++i) {
        ASSERT_TRUE(got.y[i] == wanted.y[i] || (std::isnan(got.y[i]) && std::isnan(wanted.y[i])));
      }
    }
  }
}

TEST(Conv2DPooled, FirstOfEqualMaximaWins) {
  Conv2DProblem p{.n = 1, .h = 4, .w = 4, .ci = 1, .co = 8, .activation = Activation::kRelu};
  Tensors t(p);
  for (std::int64_t c = 0; c < p.co; ++c) t.bias.set(c, -100);
  const Pooled got = forward_pooled(p, {}, t);
  for (std::int64_t i = 0; i < got.y.count(); ++i) {
    EXPECT_EQ(got.y[i], 0);
    EXPECT_EQ(got.index[static_cast<std::size_t>(i)], 0);
  }
}

TEST(Conv2DPooled, IsBitIdenticalForAnyNumberOfThreads) {
  const Conv2DProblem p{.n = 9, .h = 28, .w = 28, .ci = 1, .kh = 3, .kw = 3, .co = 32};
  const Tensors t(p);
  const Pooled one = forward_pooled(p, {}, t, 1);
  for (int threads : {2, 4}) {
    const Pooled many = forward_pooled(p, {}, t, threads);
    EXPECT_TRUE(one.y == many.y && one.index == many.index);
  }
}

// ---- Backward
// -------------------------------------------------------------------------------------

/// A gradient of the pooled values, half of it zero, and any places of the maxima. Not negative, so
/// that those of overlapping windows do not cancel.
struct PooledGradient {
  PooledGradient(const Conv2DProblem& p, const PoolWindow& window)
      : g(Buffer::random(pooled_count(p, window), p.y_dtype, 5)),
        index(static_cast<std::size_t>(g.count())) {
    std::mt19937 generator(6);
    for (std::int64_t i = 0; i < g.count(); ++i) {
      const auto random = static_cast<std::int64_t>(generator());
      g.set(i, random % 2 == 0 ? 0 : std::fabs(g[i]));
      index[static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(random / 2 % (window.size_h * window.size_w));
    }
  }

  Buffer g;
  std::vector<std::uint8_t> index;
};

Buffer backward_input_pooled(const Conv2DProblem& p, const PoolWindow& window, const Tensors& t,
                             const PooledGradient& dy, int threads = 2) {
  Buffer dx(x_count(p), p.x_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_backward_input_pooled_workspace_bytes(p, window, threads));
  conv2d_backward_input_pooled(p, window, t.w.data(), dy.g.data(), dy.index.data(), dx.data(),
                               workspace.data(), pool);
  return dx;
}

Buffer backward_filter_pooled(const Conv2DProblem& p, const PoolWindow& window, const Tensors& t,
                              const PooledGradient& dy, int threads = 2) {
  Buffer dw(w_count(p), p.w_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_backward_filter_pooled_workspace_bytes(p, window, threads));
  conv2d_backward_filter_pooled(p, window, t.x.data(), dy.g.data(), dy.index.data(), dw.data(),
                                workspace.data(), pool);
  return dw;
}

/// Calls f(problem, window) for all those the pooled gradients take.
template <class F>
void for_each_supported(const F& f) {
  std::vector<Conv2DProblem> problems = many_problems();
  problems.push_back({.n = 3, .h = 10, .w = 9, .ci = 3, .kh = 5, .kw = 5, .co = 12, .pad_left = 1});
  problems.push_back({.n = 19, .h = 6, .w = 6, .ci = 2, .kh = 3, .kw = 3, .co = 7, .pad_top = 1});
  for (const Conv2DProblem& p : problems) {
    for (const PoolWindow& window : many_windows()) {
      if (window.size_h > p.out_h() || window.size_w > p.out_w()) continue;
      if (!conv2d_backward_pooled_supports(p, window)) continue;
      SCOPED_TRACE(describe(p) + " window " + std::to_string(window.size_h) + " " +
                   std::to_string(window.size_w));
      f(p, window);
    }
  }
}

TEST(Conv2DPooled, GradientsMatchReference) {
  for (DType dtype : {float32, float16, bfloat16, float64}) {
    for_each_supported([&](Conv2DProblem p, const PoolWindow& window) {
      p.x_dtype = p.w_dtype = p.y_dtype = dtype;
      const Tensors t(p);
      const PooledGradient dy(p, window);
      const Buffer scattered = reference_unpool(p, window, dy.g, dy.index);
      expect_close(backward_input_pooled(p, window, t, dy),
                   reference_backward_input(p, t.w, scattered), p.kh * p.kw * p.co);
      expect_close(backward_filter_pooled(p, window, t, dy),
                   reference_backward_filter(p, t.x, scattered), p.n * p.out_h() * p.out_w());
    });
  }
}

TEST(Conv2DPooled, GradientsAreBitIdenticalForAnyNumberOfThreads) {
  for_each_supported([&](const Conv2DProblem& p, const PoolWindow& window) {
    const Tensors t(p);
    const PooledGradient dy(p, window);
    for (int threads : {2, 4}) {
      EXPECT_TRUE(backward_input_pooled(p, window, t, dy, 1) ==
                  backward_input_pooled(p, window, t, dy, threads));
      EXPECT_TRUE(backward_filter_pooled(p, window, t, dy, 1) ==
                  backward_filter_pooled(p, window, t, dy, threads));
    }
  });
}

TEST(Conv2DPooled, InfinityStaysAtItsOwnPixels) {
  const Conv2DProblem p{.n = 1, .h = 6, .w = 6, .ci = 3, .kh = 3, .kw = 3, .co = 8};
  const Tensors t(p);
  PooledGradient dy(p, {});
  for (std::int64_t i = 0; i < dy.g.count(); ++i) dy.g.set(i, i == 0 ? HUGE_VAL : 1);
  dy.index[0] = 0;
  const Buffer dx = backward_input_pooled(p, {}, t, dy);
  for (std::int64_t i = 0; i < dx.count(); ++i) {
    const std::int64_t row = i / p.ci / p.w;
    const std::int64_t column = i / p.ci % p.w;
    EXPECT_EQ(std::isfinite(dx[i]), row > 2 || column > 2) << "at " << row << ", " << column;
  }
}

/// Where a skipped zero meets a value that is not finite, the dense sum is NaN.
TEST(Conv2DPooled, GradientsShowNonFiniteOperandsThatOnlyZerosMeet) {
  const double values[] = {HUGE_VAL, -HUGE_VAL, std::numeric_limits<double>::quiet_NaN()};
  for (DType dtype : {float32, float16, bfloat16, float64}) {
    for_each_supported([&](Conv2DProblem p, const PoolWindow& window) {
      if (p.n == 0) return;
      p.x_dtype = p.w_dtype = p.y_dtype = dtype;
      PooledGradient dy(p, window);
      for (std::int64_t i = 0; i < dy.g.count(); ++i) dy.g.set(i, 0);
      for (const double value : values) {
        Tensors t(p);
        t.x.set(x_count(p) - 1, value);
        t.w.set(w_count(p) / 2, value);
        const Buffer dw = backward_filter_pooled(p, window, t, dy);
        for (std::int64_t i = 0; i < dw.count(); ++i) ASSERT_TRUE(std::isnan(dw[i])) << i;
        const Buffer dx = backward_input_pooled(p, window, t, dy);
        for (std::int64_t i = 0; i < dx.count(); ++i) ASSERT_TRUE(std::isnan(dx[i])) << i;
      }
    });
  }
}

TEST(Conv2DPooled, GradientsRefuseStridesDilationAndGroups) {
  const Conv2DProblem p{.n = 1, .h = 9, .w = 9, .ci = 2, .kh = 2, .kw = 2, .co = 2};
  const PoolWindow window;
  EXPECT_TRUE(conv2d_backward_pooled_supports(p, window));
  Conv2DProblem other = p;
  other.stride_w = 2;
  EXPECT_FALSE(conv2d_backward_pooled_supports(other, window));
  other = p;
  other.dilation_h = 2;
  EXPECT_FALSE(conv2d_backward_pooled_supports(other, window));
  other = p;
  other.groups = 2;
  EXPECT_FALSE(conv2d_backward_pooled_supports(other, window));
}

}  // namespace
}  // namespace demi::cpu::testing
