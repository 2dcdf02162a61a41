// Products for the tests of the emulated cuBLASLt: descriptors, memory, and the exact values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <cublasLt.h>
#include <gtest/gtest.h>

#include "tests/cuda_emulator/support/device_array.h"

namespace cuda_emulator::testing {

inline cudaDataType_t type_of(Storage storage) {
  switch (storage) {
    case Storage::kHalf:
      return CUDA_R_16F;
    case Storage::kBFloat16:
      return CUDA_R_16BF;
    case Storage::kFloat:
      return CUDA_R_32F;
    case Storage::kDouble:
      return CUDA_R_64F;
  }
  return CUDA_R_32F;
}

/// A product as a test asks for it; d is m × n.
struct Product {
  std::int64_t m = 5, n = 7, k = 9;
  Storage in = Storage::kHalf, out = Storage::kHalf;
  bool transpose_a = false, transpose_b = false;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  unsigned epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  double alpha = 1, beta = 0;
  std::int64_t gap = 0;  ///< elements between columns
  int batch = 1;
};

/// The descriptors and the memory of a product.
class Prepared {
 public:
  explicit Prepared(const Product& product) : p(product) {
    const bool is_double = p.in == Storage::kDouble;
    EXPECT_EQ(cublasLtMatmulDescCreate(&matmul, p.compute, is_double ? CUDA_R_64F : CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    const std::int32_t op_a = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const std::int32_t op_b = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, op_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{p.epilogue});
    a = make(layout_a, p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, 1);
    b = make(layout_b, p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, 2);
    d = make(layout_d, p.out, p.m, p.n, 3);
    bias_values = random_values(16, p.out, 4);
    bias = std::make_unique<DeviceArray>(p.out, bias_values);
    mask = std::make_unique<DeviceArray>(Storage::kDouble, std::vector<double>(512, 0));
    workspace = std::make_unique<DeviceArray>(Storage::kFloat, 1 << 16);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias->get());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, mask->get());
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{128});
  }
  ~Prepared() {
    for (cublasLtMatrixLayout_t layout : {layout_a, layout_b, layout_d}) {
      EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), CUBLAS_STATUS_SUCCESS);
    }
    EXPECT_EQ(cublasLtMatmulDescDestroy(matmul), CUBLAS_STATUS_SUCCESS);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(matmul, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  template <class T>
  static void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                  T value) {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  cublasStatus_t run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t* algo = nullptr,
                     std::size_t workspace_bytes = 0) {
    const float alpha_float = static_cast<float>(p.alpha), beta_float = static_cast<float>(p.beta);
    const bool is_double = p.in == Storage::kDouble;
    const void* alpha = is_double ? static_cast<const void*>(&p.alpha) : &alpha_float;
    const void* beta = is_double ? static_cast<const void*>(&p.beta) : &beta_float;
    return cublasLtMatmul(handle, matmul, alpha, a->get(), layout_a, b->get(), layout_b, beta,
                          d->get(), layout_d, d->get(), layout_d, algo,
                          workspace_bytes == 0 ? nullptr : workspace->get(), workspace_bytes,
                          nullptr);
  }

  /// op(a)(i, p), op(b)(p, j), and c(i, j) of a batch.
  [[nodiscard]] double a_at(std::int64_t batch, std::int64_t i, std::int64_t q) const {
    return at(a_values(), p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, batch,
              p.transpose_a ? q : i, p.transpose_a ? i : q);
  }
  [[nodiscard]] double b_at(std::int64_t batch, std::int64_t q, std::int64_t j) const {
    return at(b_values(), p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, batch,
              p.transpose_b ? j : q, p.transpose_b ? q : j);
  }
  [[nodiscard]] double d_at(const std::vector<double>& values, std::int64_t batch, std::int64_t i,
                            std::int64_t j) const {
    return at(values, p.m, p.n, batch, i, j);
  }
  /// alpha · op(a) · op(b) + beta · c, before the epilogue.
  [[nodiscard]] double exact(std::int64_t batch, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t q = 0; q < p.k; ++q) sum += a_at(batch, i, q) * b_at(batch, q, j);
    return p.alpha * sum + p.beta * d_at(filled[2], batch, i, j);
  }

  Product p;
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t layout_a = nullptr, layout_b = nullptr, layout_d = nullptr;
  std::unique_ptr<DeviceArray> a, b, d, bias, mask, workspace;
  std::vector<double> bias_values;

 private:
  [[nodiscard]] const std::vector<double>& a_values() const { return filled[0]; }
  [[nodiscard]] const std::vector<double>& b_values() const { return filled[1]; }

  [[nodiscard]] double at(const std::vector<double>& values, std::int64_t rows,
                          std::int64_t columns, std::int64_t batch, std::int64_t i,
                          std::int64_t j) const {
    const std::int64_t ld = rows + p.gap;
    return values[static_cast<std::size_t>(batch * ld * columns + j * ld + i)];
  }

  std::unique_ptr<DeviceArray> make(cublasLtMatrixLayout_t& layout, Storage storage,
                                    std::int64_t rows, std::int64_t columns, unsigned seed) {
    const std::int64_t ld = rows + p.gap;
    EXPECT_EQ(
        cublasLtMatrixLayoutCreate(&layout, type_of(storage), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), ld),
        CUBLAS_STATUS_SUCCESS);
    if (p.batch > 1) {
      set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{p.batch});
      set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, ld * columns);
    }
    filled.push_back(
        random_values(static_cast<std::size_t>(ld * columns * p.batch), storage, seed));
    return std::make_unique<DeviceArray>(storage, filled.back());
  }

  std::vector<std::vector<double>> filled;
};

}  // namespace cuda_emulator::testing
