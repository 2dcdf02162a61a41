#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tests/support/gemm_reference.h"
#include "tests/support/kernel_buffers.h"

namespace demi::cpu::testing {
namespace {

struct Operands {
  Buffer a;
  Buffer b;
  Buffer bias;
  Buffer c;
};

Operands make_operands(GemmProblem& p, std::int64_t gap = 0) {
  const std::int64_t a_rows = p.transpose_a ? p.k : p.m;
  const std::int64_t b_rows = p.transpose_b ? p.n : p.k;
  p.lda = (p.transpose_a ? p.m : p.k) + gap;
  p.ldb = (p.transpose_b ? p.k : p.n) + gap;
  p.ldc = p.n + gap;
  return {Buffer::random(a_rows * p.lda, p.a_dtype, 1),
          Buffer::random(b_rows * p.ldb, p.b_dtype, 2), Buffer::random(p.n, p.bias_dtype, 3),
          Buffer::random(p.m * p.ldc, p.c_dtype, 4)};
}

/// C as `gemm` leaves it, on a pool of `threads`.
Buffer product(const GemmProblem& p, const Operands& in, bool with_bias, int threads = 2) {
  Buffer c = Buffer::random(p.m * p.ldc, p.c_dtype, 4);
  ThreadPool pool(threads);
  const Bytes workspace(gemm_workspace_bytes(p, threads));
  gemm(p, in.a.data(), in.b.data(), with_bias ? in.bias.data() : nullptr, c.data(),
       workspace.data(), pool);
  return c;
}

void expect_right(GemmProblem p, bool with_bias, std::int64_t gap = 0) {
  SCOPED_TRACE("m n k " + std::to_string(p.m) + " " + std::to_string(p.n) + " " +
               std::to_string(p.k));
  const Operands in = make_operands(p, gap);
  expect_close(product(p, in, with_bias),
               reference_product(p, in.a, in.b, with_bias ? &in.bias : nullptr, in.c), p.k + 1);
}

struct Sizes {
  std::int64_t m, n, k;
};

TEST(Gemm, MatchesReferenceForManySizesAndLayouts) {
  const Sizes sizes[] = {{1, 1, 1},   {1, 10, 128},  {1, 64, 7},   {7, 10, 33},   {6, 16, 8},
                         {13, 17, 5}, {25, 35, 401}, {97, 3, 20},  {128, 10, 64}, {130, 300, 9},
                         {5, 8, 800}, {200, 33, 1},  {31, 33, 770}};
  for (const Sizes& s : sizes) {
    for (int flags = 0; flags < 4; ++flags) {
      expect_right({.m = s.m,
                    .n = s.n,
                    .k = s.k,
                    .transpose_a = (flags & 1) != 0,
                    .transpose_b = (flags & 2) != 0},
                   flags == 0, flags);
    }
  }
}

TEST(Gemm, MatchesReferenceForEveryMixOfDtypes) {
  const DType dtypes[] = {float32, float16, bfloat16};
  for (DType a : dtypes) {
    for (DType b : dtypes) {
      for (DType c : dtypes) {
        for (int flags = 0; flags < 4; ++flags) {
          expect_right({.m = 45,
                        .n = 43,
                        .k = 391,
                        .transpose_a = (flags & 1) != 0,
                        .transpose_b = (flags & 2) != 0,
                        .a_dtype = a,
                        .b_dtype = b,
                        .c_dtype = c,
                        .bias_dtype = c,
                        .activation = Activation::kRelu},
                       true, 5);
        }
      }
    }
  }
}

TEST(Gemm, MatchesReferenceInFloat64) {
  for (int flags = 0; flags < 4; ++flags) {
    expect_right({.m = 29,
                  .n = 19,
                  .k = 400,
                  .transpose_a = (flags & 1) != 0,
                  .transpose_b = (flags & 2) != 0,
                  .a_dtype = float64,
                  .b_dtype = float64,
                  .c_dtype = float64,
                  .bias_dtype = float64},
                 true, 3);
  }
}

TEST(Gemm, AccumulatesIntoC) {
  expect_right({.m = 50, .n = 21, .k = 900, .accumulate = true}, false, 2);
  expect_right({.m = 50, .n = 21, .k = 30, .b_dtype = float16, .accumulate = true}, false);
}

TEST(Gemm, PacksRowsThatCollideInTheCache) {
  expect_right({.m = 40, .n = 80, .k = 512}, false);
}

TEST(Gemm, CutsWideMatricesIntoBlocks) {
  expect_right({.m = 30, .n = 520, .k = 2100}, true);
}

TEST(Gemm, EmptySumGivesBias) {
  GemmProblem p{.m = 3, .n = 5, .k = 0};
  const Operands in = make_operands(p);
  const Buffer c = product(p, in, true);
  for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(c[i], in.bias[i % 5]);
}

TEST(Gemm, EmptyMatrixIsLeftAlone) {
  GemmProblem p{.m = 0, .n = 5, .k = 4};
  const Operands in = make_operands(p);
  EXPECT_EQ(product(p, in, true).count(), 0);
}

TEST(Gemm, ReluKeepsNan) {
  GemmProblem p{.m = 8, .n = 16, .k = 3, .activation = Activation::kRelu};
  Operands in = make_operands(p);
  in.a.set(2 * 3 + 1, std::numeric_limits<double>::quiet_NaN());
  const Buffer c = product(p, in, true);
  for (std::int64_t j = 0; j < 16; ++j) {
    EXPECT_TRUE(std::isnan(c[2 * 16 + j]));
    EXPECT_FALSE(std::isnan(c[3 * 16 + j]));
  }
}

TEST(Gemm, IsBitIdenticalForAnyNumberOfThreads) {
  for (const Sizes& s : {Sizes{128, 128, 800}, Sizes{2, 300, 500}, Sizes{300, 10, 64}}) {
    GemmProblem p{.m = s.m, .n = s.n, .k = s.k, .transpose_a = true, .a_dtype = float16};
    const Operands in = make_operands(p);
    const Buffer one = product(p, in, true, 1);
    EXPECT_TRUE(one == product(p, in, true, 2));
    EXPECT_TRUE(one == product(p, in, true, 4));
  }
}

TEST(Gemm, RowsDoNotDependOnTheNumberOfRows) {
  GemmProblem p{.m = 61, .n = 40, .k = 500};
  const Operands in = make_operands(p);
  const Buffer all = product(p, in, true);
  p.m = 3;
  const Buffer few = product(p, in, true);
  for (std::int64_t i = 0; i < few.count(); ++i) EXPECT_EQ(few[i], all[i]);
}

}  // namespace
}  // namespace demi::cpu::testing
