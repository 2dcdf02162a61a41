// Matrix products by their definition, in double.
#pragma once

#include "kernels/cpu/gemm.h"
#include "tests/support/kernel_buffers.h"

namespace demi::cpu::testing {

/// What `gemm` makes of C (with the gaps between its rows), which held `c`. `bias` may be null.
[[nodiscard]] Reference reference_product(const GemmProblem& problem, const Buffer& a,
                                          const Buffer& b, const Buffer* bias, const Buffer& c);

}  // namespace demi::cpu::testing
