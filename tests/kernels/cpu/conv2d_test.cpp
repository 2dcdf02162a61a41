#include "kernels/cpu/conv2d.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/cpu/buffers.h"
#include "tests/kernels/cpu/conv2d_reference.h"

namespace demi::cpu::testing {
namespace {

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

Buffer forward(const Conv2DProblem& p, const Tensors& t, int threads = 2) {
  Buffer y(y_count(p), p.y_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_forward_workspace_bytes(p, threads));
  conv2d_forward(p, t.x.data(), t.w.data(), t.bias.data(), y.data(), workspace.data(), pool);
  return y;
}

Buffer backward_input(const Conv2DProblem& p, const Tensors& t, int threads = 2) {
  Buffer dx(x_count(p), p.x_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_backward_input_workspace_bytes(p, threads));
  conv2d_backward_input(p, t.w.data(), t.dy.data(), dx.data(), workspace.data(), pool);
  return dx;
}

Buffer backward_filter(const Conv2DProblem& p, const Tensors& t, int threads = 2) {
  Buffer dw(w_count(p), p.w_dtype);
  ThreadPool pool(threads);
  const Bytes workspace(conv2d_backward_filter_workspace_bytes(p, threads));
  conv2d_backward_filter(p, t.x.data(), t.dy.data(), dw.data(), workspace.data(), pool);
  return dw;
}

void expect_close(const Buffer& got, const Reference& wanted, double terms) {
  ASSERT_EQ(static_cast<std::size_t>(got.count()), wanted.values.size());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_NEAR(got[i], wanted.values[at], tolerance(got.dtype(), terms, wanted.magnitudes[at]))
        << "at element " << i;
  }
}

void expect_all_right(const Conv2DProblem& p) {
  SCOPED_TRACE(describe(p));
  const Tensors t(p);
  const double taps = static_cast<double>(p.kh * p.kw);
  expect_close(forward(p, t), reference_forward(p, t.x, t.w, t.bias),
               taps * static_cast<double>(p.ci));
  expect_close(backward_input(p, t), reference_backward_input(p, t.w, t.dy),
               taps * static_cast<double>(p.co));
  expect_close(backward_filter(p, t), reference_backward_filter(p, t.x, t.dy),
               static_cast<double>(p.n * p.out_h() * p.out_w()));
}

TEST(Conv2D, MatchesReferenceForManyProblems) {
  for (Conv2DProblem p : many_problems()) {
    expect_all_right(p);
    p.activation = Activation::kRelu;
    expect_all_right(p);
  }
}

TEST(Conv2D, MatchesReferenceInHalfPrecision) {
  for (DType dtype : {float16, bfloat16}) {
    for (Conv2DProblem p : many_problems()) {
      p.x_dtype = p.w_dtype = p.y_dtype = p.bias_dtype = dtype;
      expect_all_right(p);
    }
  }
}

TEST(Conv2D, MatchesReferenceForMixedDtypes) {
  const DType dtypes[] = {float32, float16, bfloat16};
  Conv2DProblem p{.n = 2, .h = 7, .w = 6, .ci = 5, .kh = 3, .kw = 3, .co = 19, .pad_top = 1};
  for (DType x : dtypes) {
    for (DType w : dtypes) {
      for (DType y : dtypes) {
        p.x_dtype = x;
        p.w_dtype = w;
        p.y_dtype = y;
        expect_all_right(p);
      }
    }
  }
}

TEST(Conv2D, MatchesReferenceInFloat64) {
  for (Conv2DProblem p : many_problems()) {
    p.x_dtype = p.w_dtype = p.y_dtype = p.bias_dtype = float64;
    expect_all_right(p);
  }
}

TEST(Conv2D, BiasMayBeMissing) {
  const Conv2DProblem p{.n = 1, .h = 5, .w = 5, .ci = 2, .kh = 3, .kw = 3, .co = 4};
  Tensors t(p);
  Buffer y(y_count(p), float32);
  ThreadPool pool(1);
  const Bytes workspace(conv2d_forward_workspace_bytes(p, 1));
  conv2d_forward(p, t.x.data(), t.w.data(), nullptr, y.data(), workspace.data(), pool);
  for (std::int64_t i = 0; i < p.co; ++i) t.bias.set(i, 0);
  EXPECT_TRUE(y == forward(p, t));
}

TEST(Conv2D, IsBitIdenticalForAnyNumberOfThreads) {
  for (Conv2DProblem p : many_problems()) {
    SCOPED_TRACE(describe(p));
    p.n *= 3;
    p.x_dtype = float16;
    const Tensors t(p);
    for (int threads : {2, 4}) {
      EXPECT_TRUE(forward(p, t, 1) == forward(p, t, threads));
      EXPECT_TRUE(backward_input(p, t, 1) == backward_input(p, t, threads));
      EXPECT_TRUE(backward_filter(p, t, 1) == backward_filter(p, t, threads));
    }
  }
}

TEST(Conv2D, ReluAfterwardsGivesTheSameBits) {
  Conv2DProblem p{.n = 4, .h = 9, .w = 9, .ci = 3, .kh = 3, .kw = 3, .co = 20};
  const Tensors t(p);
  Buffer plain = forward(p, t);
  p.activation = Activation::kRelu;
  const Buffer fused = forward(p, t);
  for (std::int64_t i = 0; i < plain.count(); ++i) EXPECT_EQ(fused[i], plain[i] > 0 ? plain[i] : 0);
}

// ---- Fused with max-pooling
// -----------------------------------------------------------------------

struct Pooled {
  Buffer y;
  std::vector<std::uint8_t> index;
};

std::int64_t pooled_count(const Conv2DProblem& p, const PoolWindow& w) {
  return p.n * w.out_h(p.out_h()) * w.out_w(p.out_w()) * p.co;
}

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

/// Max-pooling by its definition; values stay as they are but for the final rounding.
Pooled pool_values(const Conv2DProblem& p, const PoolWindow& window, const Buffer& values) {
  const std::int64_t count = pooled_count(p, window);
  Pooled out{Buffer(count, p.y_dtype), std::vector<std::uint8_t>(static_cast<std::size_t>(count))};
  const std::int64_t out_w = window.out_w(p.out_w());
  const std::int64_t out_h = window.out_h(p.out_h());
  for (std::int64_t o = 0; o < count; ++o) {
    const std::int64_t place = o / p.co;
    const std::int64_t n = place / out_w / out_h;
    double best = 0;
    int where = -1;
    for (int i = 0; i < window.size_h * window.size_w; ++i) {
      const std::int64_t row = place / out_w % out_h * window.stride_h + i / window.size_w;
      const std::int64_t column = place % out_w * window.stride_w + i % window.size_w;
      const double value = values[((n * p.out_h() + row) * p.out_w() + column) * p.co + o % p.co];
      if (where < 0 || value > best || (std::isnan(value) && !std::isnan(best))) {
        best = value;
        where = i;
      }
    }
    out.y.set(o, best);
    out.index[static_cast<std::size_t>(o)] = static_cast<std::uint8_t>(where);
  }
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
        const Pooled wanted = pool_values(p, window, values);
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

}  // namespace
}  // namespace demi::cpu::testing
