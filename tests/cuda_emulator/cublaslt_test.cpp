// Products of the emulated cuBLASLt against loops in float64, and what it refuses.
#include <algorithm>
#include <cmath>
#include <memory>

#include <cublasLt.h>
#include <gtest/gtest.h>

#include "cuda_emulator/library_control.h"
#include "tests/cuda_emulator/support/cublaslt_product.h"

namespace cuda_emulator::testing {
namespace {

double tolerance_of(const Product& product) {
  switch (product.out) {
    case Storage::kHalf:
      return 0x1p-10;
    case Storage::kBFloat16:
      return 0x1p-7;
    case Storage::kFloat:
      return 0x1p-23 * static_cast<double>(8 + product.k / 8);
    case Storage::kDouble:
      return 0x1p-48;
  }
  return 0;
}

class CublasLt : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_SUCCESS); }
  void TearDown() override {
    demi_emulator_refuse_epilogues(0);
    EXPECT_EQ(cublasLtDestroy(handle_), CUBLAS_STATUS_SUCCESS);
  }

  void expect_result(Prepared& setup, const auto& epilogue) {
    const Product& p = setup.p;
    ASSERT_EQ(setup.run(handle_), CUBLAS_STATUS_SUCCESS);
    const std::vector<double> result = setup.d->read();
    for (std::int64_t batch = 0; batch < p.batch; ++batch) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        for (std::int64_t i = 0; i < p.m; ++i) {
          const double expected = epilogue(setup.exact(batch, i, j), i, j);
          ASSERT_NEAR(setup.d_at(result, batch, i, j), expected,
                      tolerance_of(p) * (1 + std::fabs(expected)))
              << i << ", " << j << " of batch " << batch;
        }
      }
    }
  }
  void expect_product(const Product& product) {
    Prepared setup(product);
    expect_result(setup, [](double value, std::int64_t, std::int64_t) { return value; });
  }

  cublasStatus_t find(Prepared& setup, std::uint64_t workspace_bytes, int limit,
                      cublasLtMatmulHeuristicResult_t* results, int* found,
                      std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK) {
    cublasLtMatmulPreference_t preference = nullptr;
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)),
        CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions, sizeof(reductions)),
        CUBLAS_STATUS_SUCCESS);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, setup.matmul, setup.layout_a, setup.layout_b, setup.layout_d, setup.layout_d,
        preference, limit, results, found);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
    return status;
  }

  cublasLtHandle_t handle_ = nullptr;
};

TEST_F(CublasLt, MultipliesEverySupportedCombinationOfTypes) {
  for (const auto& [in, out] : {std::pair{Storage::kHalf, Storage::kHalf},
                                {Storage::kHalf, Storage::kFloat},
                                {Storage::kBFloat16, Storage::kBFloat16},
                                {Storage::kBFloat16, Storage::kFloat},
                                {Storage::kFloat, Storage::kFloat},
                                {Storage::kDouble, Storage::kDouble}}) {
    const bool is_double = in == Storage::kDouble;
    if (in == Storage::kBFloat16 && !device_has_bfloat16()) {
      EXPECT_EQ(Prepared({.in = in, .out = out}).run(handle_), CUBLAS_STATUS_ARCH_MISMATCH);
      continue;
    }
    expect_product({.in = in,
                    .out = out,
                    .compute = is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                    .alpha = 0.5,
                    .beta = 2});
  }
  expect_product(
      {.in = Storage::kFloat, .out = Storage::kFloat, .compute = CUBLAS_COMPUTE_32F_PEDANTIC});
}

TEST_F(CublasLt, MultipliesTransposedPaddedAndBatchedMatrices) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      expect_product({.in = Storage::kFloat,
                      .out = Storage::kFloat,
                      .transpose_a = transpose_a,
                      .transpose_b = transpose_b,
                      .gap = 3,
                      .batch = 3});
    }
  }
}

TEST_F(CublasLt, MultipliesExtentsThatAreNoMultiplesOfTiles) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                {128, 1, 3},
                                {1, 130, 520},
                                {101, 97, 257},
                                {6, 16, 256}}) {
    expect_product({.m = m, .n = n, .k = k, .in = Storage::kFloat, .out = Storage::kFloat});
  }
}

TEST_F(CublasLt, AddsBiasAndAppliesRelu) {
  Prepared biased({.epilogue = CUBLASLT_EPILOGUE_BIAS});
  expect_result(biased, [&](double value, std::int64_t i, std::int64_t) {
    return value + biased.bias_values[i];
  });
  Prepared rectified({.epilogue = CUBLASLT_EPILOGUE_RELU});
  expect_result(rectified,
                [](double value, std::int64_t, std::int64_t) { return std::max(0.0, value); });
  Prepared both({.out = Storage::kFloat, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS});
  expect_result(both, [&](double value, std::int64_t i, std::int64_t) {
    return std::max(0.0, value + both.bias_values[i]);
  });
}

TEST_F(CublasLt, TheMaskOfReluSelectsTheGradient) {
  Prepared forward({.epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS});
  expect_result(forward, [&](double value, std::int64_t i, std::int64_t) {
    return std::max(0.0, value + forward.bias_values[i]);
  });
  const std::vector<double> activations = forward.d->read();
  Prepared backward({.out = Storage::kFloat, .epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD});
  backward.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, forward.mask->get());
  expect_result(backward, [&](double value, std::int64_t i, std::int64_t j) {
    return forward.d_at(activations, 0, i, j) > 0 ? value : 0;
  });
  const std::vector<double> gradient = backward.bias->read(), d = backward.d->read();
  for (std::int64_t i = 0; i < backward.p.m; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < backward.p.n; ++j) sum += backward.d_at(d, 0, i, j);
    EXPECT_NEAR(gradient[i], sum, 1e-5);
  }
}

TEST_F(CublasLt, ReluMakesNanZero) {
  Prepared setup({.epilogue = CUBLASLT_EPILOGUE_RELU});
  setup.a = std::make_unique<DeviceArray>(Storage::kHalf, std::vector<double>(45, std::nan("")));
  ASSERT_EQ(setup.run(handle_), CUBLAS_STATUS_SUCCESS);
  for (const double value : setup.d->read()) EXPECT_EQ(value, 0);
}

TEST_F(CublasLt, SumsBiasGradientsOverTheProductsDepth) {
  for (const unsigned epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    for (const bool transposed : {false, true}) {
      Prepared setup({.out = Storage::kFloat,
                      .transpose_a = transposed,
                      .transpose_b = transposed,
                      .epilogue = epilogue});
      expect_result(setup, [](double value, std::int64_t, std::int64_t) { return value; });
      const std::vector<double> gradient = setup.bias->read();
      const bool of_a = epilogue == CUBLASLT_EPILOGUE_BGRADA;
      for (std::int64_t i = 0; i < (of_a ? setup.p.m : setup.p.n); ++i) {
        double sum = 0;
        for (std::int64_t q = 0; q < setup.p.k; ++q) {
          sum += of_a ? setup.a_at(0, i, q) : setup.b_at(0, q, i);
        }
        EXPECT_NEAR(gradient[i], sum, 1e-5);
      }
    }
  }
}

TEST_F(CublasLt, RoundsOperandsToTf32WhereThatIsAllowed) {
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    Prepared setup({.m = 1,
                    .n = 1,
                    .k = 1,
                    .in = Storage::kFloat,
                    .out = Storage::kFloat,
                    .compute = compute});
    setup.a = std::make_unique<DeviceArray>(Storage::kFloat, std::vector<double>{1 + 0x1.8p-11});
    setup.b = std::make_unique<DeviceArray>(Storage::kFloat, std::vector<double>{1});
    ASSERT_EQ(setup.run(handle_), CUBLAS_STATUS_SUCCESS);
    const bool rounds = compute != CUBLAS_COMPUTE_32F && device_has_bfloat16();
    EXPECT_EQ(setup.d->read()[0], rounds ? 1 + 0x1p-10 : 1 + 0x1.8p-11);
  }
}

TEST_F(CublasLt, RefusesTypesThatAreNotInTheTable) {
  const auto status = [&](const Product& product) { return Prepared(product).run(handle_); };
  EXPECT_EQ(status({.in = Storage::kFloat, .out = Storage::kHalf}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status({.compute = CUBLAS_COMPUTE_16F}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status({.compute = CUBLAS_COMPUTE_32F_FAST_TF32}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status({.in = Storage::kDouble, .out = Storage::kDouble}), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status({.in = Storage::kDouble,
                    .out = Storage::kDouble,
                    .compute = CUBLAS_COMPUTE_64F,
                    .epilogue = CUBLASLT_EPILOGUE_BIAS}),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(status({.epilogue = CUBLASLT_EPILOGUE_GELU}), CUBLAS_STATUS_NOT_SUPPORTED);
  Prepared other_bias({.epilogue = CUBLASLT_EPILOGUE_BIAS});
  other_bias.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{CUDA_R_32F});
  EXPECT_EQ(other_bias.run(handle_), CUBLAS_STATUS_NOT_SUPPORTED);
  Prepared device_scalars({});
  device_scalars.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_DEVICE});
  EXPECT_EQ(device_scalars.run(handle_), CUBLAS_STATUS_NOT_SUPPORTED);
  Prepared row_order({});
  Prepared::set(row_order.layout_d, CUBLASLT_MATRIX_LAYOUT_ORDER, std::int32_t{CUBLASLT_ORDER_ROW});
  EXPECT_EQ(row_order.run(handle_), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(CublasLt, RefusesLayoutsThatContradictEachOther) {
  Prepared setup({});
  EXPECT_EQ(setup.run(nullptr), CUBLAS_STATUS_NOT_INITIALIZED);
  Prepared::set(setup.layout_a, CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{4});
  EXPECT_EQ(setup.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  Prepared columns({});
  Prepared::set(columns.layout_b, CUBLASLT_MATRIX_LAYOUT_COLS, std::uint64_t{6});
  EXPECT_EQ(columns.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  Prepared batched({});
  Prepared::set(batched.layout_a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{2});
  EXPECT_EQ(batched.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  Prepared empty({});
  Prepared::set(empty.layout_a, CUBLASLT_MATRIX_LAYOUT_COLS, std::uint64_t{0});
  EXPECT_EQ(empty.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  Prepared wrong_size({});
  const std::int32_t ld = 5;
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(wrong_size.layout_a, CUBLASLT_MATRIX_LAYOUT_LD, &ld,
                                             sizeof(ld)),
            CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLt, RefusesEpiloguesWithoutTheirMemory) {
  Prepared no_bias({.epilogue = CUBLASLT_EPILOGUE_BIAS});
  no_bias.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(nullptr));
  EXPECT_EQ(no_bias.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  Prepared no_mask({.epilogue = CUBLASLT_EPILOGUE_RELU_AUX});
  no_mask.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(nullptr));
  EXPECT_EQ(no_mask.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  for (const std::int64_t ld : {0, 64, 136}) {
    Prepared mask({.epilogue = CUBLASLT_EPILOGUE_RELU_AUX});
    mask.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    EXPECT_EQ(mask.run(handle_), CUBLAS_STATUS_INVALID_VALUE);
  }
}

TEST_F(CublasLt, FindsAlgorithmsWithinTheWorkspace) {
  Prepared setup({.m = 8, .n = 8, .k = 1024});
  cublasLtMatmulHeuristicResult_t results[4];
  int found = 0;
  ASSERT_EQ(find(setup, 1 << 20, 4, results, &found), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(found, 2);
  EXPECT_EQ(results[0].workspaceSize, 2U * 8 * 8 * 4);
  EXPECT_EQ(results[1].workspaceSize, 0U);
  EXPECT_EQ(setup.run(handle_, &results[0].algo, 512), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(setup.run(handle_, &results[0].algo, 511), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(setup.run(handle_, &results[0].algo), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(setup.run(handle_, &results[1].algo), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(find(setup, 511, 4, results, &found), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found, 1);
  ASSERT_EQ(find(setup, 1 << 20, 4, results, &found, CUBLASLT_REDUCTION_SCHEME_NONE),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(find(setup, 0, 0, results, &found), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLt, AnAlgorithmFitsOnlyWhatItWasFoundFor) {
  Prepared setup({.m = 8, .n = 8, .k = 16, .epilogue = CUBLASLT_EPILOGUE_BIAS});
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  ASSERT_EQ(find(setup, 0, 1, &result, &found), CUBLAS_STATUS_SUCCESS);
  Prepared other({.m = 8, .n = 8, .k = 24, .epilogue = CUBLASLT_EPILOGUE_BIAS});
  EXPECT_EQ(other.run(handle_, &result.algo), CUBLAS_STATUS_INVALID_VALUE);
  setup.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(setup.bias->bytes() + 2));
  EXPECT_EQ(setup.run(handle_, &result.algo), CUBLAS_STATUS_NOT_SUPPORTED);
  const cublasLtMatmulAlgo_t nothing = {};
  EXPECT_EQ(setup.run(handle_, &nothing), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(CublasLt, FindsNothingForEpiloguesThatATestRefuses) {
  demi_emulator_refuse_epilogues(CUBLASLT_EPILOGUE_BGRADA);
  cublasLtMatmulHeuristicResult_t result;
  int found = 1;
  Prepared refused({.epilogue = CUBLASLT_EPILOGUE_BGRADA});
  EXPECT_EQ(find(refused, 0, 1, &result, &found), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(found, 0);
  Prepared other({});
  EXPECT_EQ(find(other, 0, 1, &result, &found), CUBLAS_STATUS_SUCCESS);
}

using CublasLtDeathTest = CublasLt;

TEST_F(CublasLtDeathTest, StopsAtMemoryThatIsNotTheDevices) {
  Prepared setup({});
  setup.d = std::make_unique<DeviceArray>(Storage::kHalf, 34);
  EXPECT_DEATH((void)setup.run(handle_), "D needs 70 bytes of one device allocation");
  Prepared biased({.epilogue = CUBLASLT_EPILOGUE_BIAS});
  alignas(16) static std::byte host[64];
  biased.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void*>(host));
  EXPECT_DEATH((void)biased.run(handle_), "the bias needs 10 bytes");
  Prepared overlapping({.m = 4, .n = 4, .k = 4, .out = Storage::kFloat});
  overlapping.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_BGRADA});
  overlapping.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, overlapping.d->get());
  EXPECT_DEATH((void)overlapping.run(handle_), "the bias overlaps D");
}

TEST_F(CublasLtDeathTest, StopsAtDestroyedObjects) {
  cublasLtMatmulDesc_t matmul = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulDescDestroy(matmul), CUBLAS_STATUS_SUCCESS);
  EXPECT_DEATH((void)cublasLtMatmulDescDestroy(matmul), "matmul descriptor was destroyed");
}

TEST(CublasLtStatus, HasNamesAndExplanations) {
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_NE(std::string(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED)), "");
  EXPECT_EQ(cublasLtGetVersion(), static_cast<std::size_t>(CUBLAS_VERSION));
}

}  // namespace
}  // namespace cuda_emulator::testing
