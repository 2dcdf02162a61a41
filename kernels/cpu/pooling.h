// The kernels of max_pool2d, also as parts of other kernels.
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/registry.h"

namespace demi::cpu {

/// A kernel of max_pool2d or of max_pool2d_backward; null, with a reason, for dtypes that are not
/// floating or not all the same.
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d(const KernelRequest& request,
                                                      ThreadPool& pool, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelRequest& request,
                                                               ThreadPool& pool,
                                                               std::string& reason);

}  // namespace demi::cpu
