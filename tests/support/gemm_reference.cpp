#include "tests/support/gemm_reference.h"

#include <vector>

namespace demi::cpu::testing {

Reference reference_product(const GemmProblem& p, const Buffer& a, const Buffer& b,
                            const Buffer* bias, const Buffer& c) {
  const std::vector<double> as = a.values();
  const std::vector<double> bs = b.values();
  Reference product(c.count());
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      const std::int64_t at = i * p.ldc + j;
      if (bias != nullptr) product.add(at, (*bias)[j]);
      if (p.accumulate) product.add(at, c[at]);
      for (std::int64_t s = 0; s < p.k; ++s) {
        const std::int64_t in_a = p.transpose_a ? s * p.lda + i : i * p.lda + s;
        const std::int64_t in_b = p.transpose_b ? j * p.ldb + s : s * p.ldb + j;
        product.add(at, as[static_cast<std::size_t>(in_a)] * bs[static_cast<std::size_t>(in_b)]);
      }
    }
  }
  if (p.activation == Activation::kRelu) product.relu();
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = p.n; j < p.ldc; ++j) {
      product.values[static_cast<std::size_t>(i * p.ldc + j)] = c[i * p.ldc + j];
    }
  }
  return product;
}

}  // namespace demi::cpu::testing
