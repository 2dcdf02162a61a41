// The kernels of the family pooling, by file.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/registry.h"

namespace demi::cuda::pooling {

/// max_pool.cu: own kernels of max_pool2d and max_pool2d_backward.
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d(const KernelRequest& request,
                                                      Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelRequest& request,
                                                               Context& context,
                                                               std::string& reason);
/// The same with bias_gradient: in one launch, or, in general, followed by a reduction.
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d_backward_sum(const KernelRequest& request,
                                                                   Context& context,
                                                                   std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d_backward_then_sum(
    const KernelRequest& request, Context& context, std::string& reason);

/// The same from the image, without an index (Pool2DAttributes::from_image).
[[nodiscard]] std::unique_ptr<Kernel> make_max_pool2d_backward_from_image(
    const KernelRequest& request, Context& context, std::string& reason);

/// cudnn.cpp: calls of cuDNN for the two, which know no index.
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_max_pool2d(const KernelRequest& request,
                                                            Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_max_pool2d_backward(const KernelRequest& request,
                                                                     Context& context,
                                                                     std::string& reason);

/// average_pool.cu: own kernels of average_pool2d and average_pool2d_backward.
[[nodiscard]] std::unique_ptr<Kernel> make_average_pool2d(const KernelRequest& request,
                                                          Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_average_pool2d_backward(const KernelRequest& request,
                                                                   Context& context,
                                                                   std::string& reason);

}  // namespace demi::cuda::pooling
