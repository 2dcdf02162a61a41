// The kernels of the family batch_norm, by file.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/registry.h"

namespace demi::cuda::batch_norm {

/// forward.cu and backward.cu: own kernels.
[[nodiscard]] std::unique_ptr<Kernel> make_train(const KernelRequest& request, Context& context,
                                                 std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_inference(const KernelRequest& request, Context& context,
                                                     std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_backward(const KernelRequest& request, Context& context,
                                                    std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_inference_backward(const KernelRequest& request,
                                                              Context& context,
                                                              std::string& reason);

/// cudnn.cpp: calls of cuDNN for the same.
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_train(const KernelRequest& request,
                                                       Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_inference(const KernelRequest& request,
                                                           Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_backward(const KernelRequest& request,
                                                          Context& context, std::string& reason);
[[nodiscard]] std::unique_ptr<Kernel> make_cudnn_inference_backward(const KernelRequest& request,
                                                                    Context& context,
                                                                    std::string& reason);

}  // namespace demi::cuda::batch_norm
