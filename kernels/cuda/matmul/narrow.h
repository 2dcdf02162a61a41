// Products of a narrow matrix, as the last layer of a classifier has: cuBLASLt would leave its bias
// or the relu behind it to a second launch, and there is too little arithmetic for that to pay.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/registry.h"

namespace demi::cuda::matmul {

/// y [m, n] of few columns: n up to 16, k up to 1024. A bias of any dtype, relu.
[[nodiscard]] std::unique_ptr<Kernel> make_few_columns(const KernelRequest& request,
                                                       Context& context, std::string& reason);
/// Sums of few terms: k up to 16, with relu_backward.
[[nodiscard]] std::unique_ptr<Kernel> make_few_terms(const KernelRequest& request, Context& context,
                                                     std::string& reason);

}  // namespace demi::cuda::matmul
