// A product as cuBLASLt is asked for it, checked.
#pragma once

#include <cstdint>

#include "tests/cuda_emulator/src/cublaslt_objects.h"
#include "tests/cuda_emulator/src/numeric.h"

namespace cuda_emulator {

/// A matrix, column after column.
struct LtMatrix {
  Format format;
  std::int64_t rows, columns, ld, batch_stride;  ///< in elements

  /// From the first element of the first matrix of a batch to the end of the last's last.
  [[nodiscard]] std::size_t bytes(std::int64_t batch_count) const;
};

/// d (m × n) = epilogue(alpha · op(a) · op(b) + beta · c).
struct LtProblem {
  LtMatmul matmul;
  LtMatrix a, b, c, d;
  std::int64_t m, n, k, batch_count;
  bool is_double;
  bool rounds_to_tf32;

  [[nodiscard]] bool has_epilogue(unsigned bits) const { return (matmul.epilogue & bits) == bits; }
  [[nodiscard]] bool adds_bias() const { return has_epilogue(CUBLASLT_EPILOGUE_BIAS); }
  [[nodiscard]] bool writes_bias_gradient() const;
  [[nodiscard]] std::int64_t bias_length() const;
  /// Reads or writes the mask of a ReLU.
  [[nodiscard]] bool has_mask() const { return has_epilogue(128); }
  [[nodiscard]] bool writes_mask() const {
    return has_mask() && has_epilogue(CUBLASLT_EPILOGUE_RELU);
  }
  [[nodiscard]] std::size_t mask_bytes() const;
};

/// Fills `problem`. INVALID_VALUE for what contradicts itself, NOT_SUPPORTED for combinations that
/// are not in cuBLAS's tables of supported types and epilogues, ARCH_MISMATCH for what the
/// described device cannot. Addresses are not looked at.
[[nodiscard]] cublasStatus_t read_problem(const LtMatmul& matmul, const LtLayout& a,
                                          const LtLayout& b, const LtLayout& c, const LtLayout& d,
                                          LtProblem& problem);

/// What the emulator keeps in the opaque words of a cublasLtMatmulAlgo_t.
struct LtAlgorithm {
  static constexpr std::uint64_t kMark = 0x64656d69'0001;

  std::uint64_t mark;
  std::uint64_t problem;  ///< fingerprint() of what it was found for
  std::uint64_t workspace_bytes;
  std::uint32_t alignment_a, alignment_b, alignment_c, alignment_d, alignment_bias;
  std::uint32_t tensor_cores;  ///< 0 or 1
  std::uint32_t unused[2];
};
static_assert(sizeof(LtAlgorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// Differs between problems that need not have the same algorithms.
[[nodiscard]] std::uint64_t fingerprint(const LtProblem& problem);

}  // namespace cuda_emulator
