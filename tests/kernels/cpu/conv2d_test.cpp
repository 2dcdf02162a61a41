#include "kernels/cpu/conv2d.h"

#include <gtest/gtest.h>

#include "kernels/cpu/gemm.h"
#include "tests/kernels/cpu/conv2d_tensors.h"

namespace demi::cpu::testing {
namespace {

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

void expect_all_right(const Conv2DProblem& p) {
  SCOPED_TRACE(describe(p));
  const Tensors t(p);
  const std::int64_t taps = p.kh * p.kw;
  expect_close(forward(p, t), reference_forward(p, t.x, t.w, t.bias), taps * p.ci);
  expect_close(backward_input(p, t), reference_backward_input(p, t.w, t.dy), taps * p.co);
  expect_close(backward_filter(p, t), reference_backward_filter(p, t.x, t.dy),
               p.n * p.out_h() * p.out_w());
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

TEST(Conv2D, GivesAnImageTheSameBitsInAnyBatch) {
  for (Conv2DProblem p : many_problems()) {
    SCOPED_TRACE(describe(p));
    p.n = 5;
    const Tensors t(p);
    const Buffer y = forward(p, t);
    const Buffer dx = backward_input(p, t);
    // The first images alone.
    p.n = 2;
    const Buffer few_y = forward(p, t);
    const Buffer few_dx = backward_input(p, t);
    for (std::int64_t i = 0; i < few_y.count(); ++i) ASSERT_EQ(few_y[i], y[i]);
    for (std::int64_t i = 0; i < few_dx.count(); ++i) ASSERT_EQ(few_dx[i], dx[i]);
  }
}

/// So that a backend may choose either.
TEST(Conv2D, OfOnePixelKernelsHasTheBitsOfTheProduct) {
  Conv2DProblem p{.n = 3, .h = 5, .w = 7, .ci = 419, .co = 35, .activation = Activation::kRelu};
  for (DType dtype : {float32, float16, bfloat16, float64}) {
    p.x_dtype = p.w_dtype = p.y_dtype = p.bias_dtype = dtype;
    const Tensors t(p);
    GemmProblem product{.m = p.n * p.h * p.w,
                        .n = p.co,
                        .k = p.ci,
                        .a_dtype = dtype,
                        .b_dtype = dtype,
                        .c_dtype = dtype,
                        .bias_dtype = dtype,
                        .activation = p.activation};
    ThreadPool pool(2);
    Buffer y(y_count(p), dtype);
    const Bytes workspace(gemm_workspace_bytes(product, 2));
    gemm(product, t.x.data(), t.w.data(), t.bias.data(), y.data(), workspace.data(), pool);
    EXPECT_TRUE(y == forward(p, t));
    product.n = p.ci;
    product.k = p.co;
    product.transpose_b = true;
    product.activation = Activation::kNone;
    Buffer dx(x_count(p), dtype);
    const Bytes backward_workspace(gemm_workspace_bytes(product, 2));
    gemm(product, t.dy.data(), t.w.data(), nullptr, dx.data(), backward_workspace.data(), pool);
    EXPECT_TRUE(dx == backward_input(p, t));
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

}  // namespace
}  // namespace demi::cpu::testing
