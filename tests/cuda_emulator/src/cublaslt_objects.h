// The objects of cuBLASLt: handles, descriptors, layouts, preferences.
#pragma once

#include <cstdint>
#include <memory>

#include <cublasLt.h>

#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {

struct LtHandle {};

/// Member for member the attributes cublasLtMatmulDescAttributes_t that are emulated.
struct LtMatmul {
  std::int32_t compute_type, scale_type;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::int32_t fill_mode = CUBLAS_FILL_MODE_FULL;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int64_t bias_batch_stride = 0;
  std::int32_t bias_type = -1;
  void* aux = nullptr;
  std::int64_t aux_ld = 0, aux_batch_stride = 0;
  std::int32_t aux_type = -1;
};

/// As cublasLtMatrixLayoutAttribute_t.
struct LtLayout {
  std::uint32_t type;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;
};

/// As cublasLtMatmulPreferenceAttributes_t.
struct LtPreference {
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};

[[nodiscard]] Handles<LtHandle>& lt_handles();
[[nodiscard]] Handles<LtMatmul>& lt_matmuls();
[[nodiscard]] Handles<LtLayout>& lt_layouts();
[[nodiscard]] Handles<LtPreference>& lt_preferences();

}  // namespace cuda_emulator
