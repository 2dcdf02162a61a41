// The kernel candidates of the family conv2d, implemented file by file.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/context.h"
#include "kernels/kernel.h"

namespace demi::cuda {

// ---- cuDNN's graph API (cudnn.cpp)
// -----------------------------------------------------------------
//
// float32, float16 or bfloat16 throughout, except that a bias and the gradient of a filter may have
// another dtype: they are converted.

/// The convolution with its epilogue in one graph.
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_forward(const KernelRequest& request,
                                                         Context& context, std::string& reason);
/// The convolution alone, then bias and activation by a kernel of ours.
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_forward_then_bias(const KernelRequest& request,
                                                                   Context& context,
                                                                   std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_backward_input(const KernelRequest& request,
                                                                Context& context,
                                                                std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_backward_filter(const KernelRequest& request,
                                                                 Context& context,
                                                                 std::string& reason);

// ---- Our own implicit matrix products (direct.cu)
// --------------------------------------------------
//
// Any floating dtype of each operand (sums in double if one is float64, else in float), any
// geometry, any batch, deterministic. Reasonable rather than fast.

[[nodiscard]] std::unique_ptr<Kernel> make_direct_forward(const KernelRequest& request,
                                                          Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_direct_backward_input(const KernelRequest& request,
                                                                 Context& context,
                                                                 std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_direct_backward_filter(const KernelRequest& request,
                                                                  Context& context,
                                                                  std::string& reason);

// ---- Pooled forms, in two steps (pooled.cpp)
// -------------------------------------------------------

/// conv2d with a pooling: one of the candidates above, then max_pool2d.
[[nodiscard]] std::unique_ptr<Kernel> make_forward_then_pool(const KernelRequest& request,
                                                             Context& context, std::string& reason);
/// max_pool2d_backward, then one of the candidates above.
[[nodiscard]] std::unique_ptr<Kernel> make_backward_input_scattered(const KernelRequest& request,
                                                                    Context& context,
                                                                    std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_backward_filter_scattered(const KernelRequest& request,
                                                                     Context& context,
                                                                     std::string& reason);

}  // namespace demi::cuda
