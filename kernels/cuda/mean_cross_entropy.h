// mean_sparse_cross_entropy: loss, accuracy and gradient of a batch of logits in one launch.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/registry.h"

namespace demi::cuda {

[[nodiscard]] std::unique_ptr<Kernel> make_mean_sparse_cross_entropy(const KernelRequest& request,
                                                                     Context& context,
                                                                     std::string& reason);

}  // namespace demi::cuda
