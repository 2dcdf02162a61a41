// Calls of cuDNN for max_pool2d and its gradient. A NaN counts as the maximum, as in our kernels;
// which of equal maxima is given the gradient is up to cuDNN, but always the same.

#include <algorithm>
#include <limits>

#include <demi/ops/pooling.h>

#include "kernels/cuda/cudnn/call.h"
#include "kernels/cuda/elementwise_calls.h"
#include "kernels/cuda/pooling/register.h"
#include "src/core/tensor_type.h"

namespace demi::cuda::pooling {
namespace {

using cudnn::Factors;
using cudnn::TensorDescriptor;
using ops::Pool2DAttributes;

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

class PoolingDescriptor
    : public cudnn::CallDescriptor<cudnnPoolingDescriptor_t, &cudnnCreatePoolingDescriptor,
                                   &cudnnDestroyPoolingDescriptor> {
 public:
  explicit PoolingDescriptor(const Pool2DAttributes& attributes) {
    const auto value = [](std::int64_t v) { return static_cast<int>(v); };
    DEMI_CUDA_CHECK(
        cudnnSetPooling2dDescriptor(get(), CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN,
                                    value(attributes.pool_size[0]), value(attributes.pool_size[1]),
                                    value(attributes.padding.top), value(attributes.padding.left),
                                    value(attributes.strides[0]), value(attributes.strides[1])));
  }
};

TensorDescriptor descriptor_of(const TensorType& type) {
  const auto extent = [&](int axis) { return static_cast<int>(type.shape[axis]); };
  return {type.dtype, extent(0), extent(1), extent(2), extent(3)};
}

/// cuDNN pads both sides alike and counts its windows from that.
bool has_windows_of_cudnn(const Pool2DAttributes& attributes, const Shape& image,
                          const Shape& pooled) {
  const std::int64_t before[] = {attributes.padding.top, attributes.padding.left};
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t room = image[i + 1] + 2 * before[at] - attributes.pool_size[at];
    if (room < 0 || room / attributes.strides[at] + 1 != pooled[i + 1]) return false;
  }
  return true;
}

bool applies(const KernelRequest& request, const TensorType& image, const TensorType& pooled,
             const Context& context, std::string& reason) {
  const auto& attributes = request.attributes.as<Pool2DAttributes>();
  if (!attributes.from_image) {
    reason = "cuDNN gives and takes no index of the maxima";
    return false;
  }
  if (!cudnn::takes_dtype(image.dtype, context, reason)) return false;
  if (pooled.dtype != image.dtype) {
    reason = "it computes tensors of one dtype";
    return false;
  }
  if (image.shape.elements() == 0 || pooled.shape.elements() == 0) {
    reason = "the batch is empty";
    return false;
  }
  if (image.shape.elements() > kMost ||
      std::max(attributes.strides[0], attributes.strides[1]) > kMost) {
    reason = "cuDNN counts in 32 bits";
    return false;
  }
  if (!has_windows_of_cudnn(attributes, image.shape, pooled.shape)) {
    reason = "cuDNN pads above and below, left and right alike";
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Kernel> make_cudnn_max_pool2d(const KernelRequest& request, Context& context,
                                              std::string& reason) {
  const TensorType &image = request.inputs[0], &pooled = request.outputs[0];
  if (!applies(request, image, pooled, context, reason)) return nullptr;
  return cudnn::or_reason(reason, [&] {
    const auto& attributes = request.attributes.as<Pool2DAttributes>();
    auto body = [pooling = PoolingDescriptor(attributes), x = descriptor_of(image),
                 y = descriptor_of(pooled), pooled, factors = Factors(image.dtype),
                 relu = attributes.relu, &context](const KernelArguments& a) {
      DEMI_CUDA_CHECK(cudnnPoolingForward(context.cudnn(), pooling.get(), factors.one(), x.get(),
                                          a.inputs[0], factors.zero(), y.get(), a.outputs[0]));
      if (relu) {
        apply_relu(a.outputs[0], pooled.dtype, pooled.shape.elements(), context.stream());
      }
    };
    return cudnn::make_call("cudnnPoolingForward", 0, attributes.relu ? 1 : 0, std::move(body));
  });
}

std::unique_ptr<Kernel> make_cudnn_max_pool2d_backward(const KernelRequest& request,
                                                       Context& context, std::string& reason) {
  const TensorType &pooled = request.inputs[0], &image = request.outputs[0];
  if (!applies(request, image, pooled, context, reason)) return nullptr;
  return cudnn::or_reason(reason, [&] {
    auto body = [pooling = PoolingDescriptor(request.attributes.as<Pool2DAttributes>()),
                 x = descriptor_of(image), y = descriptor_of(pooled),
                 factors = Factors(image.dtype), &context](const KernelArguments& a) {
      DEMI_CUDA_CHECK(cudnnPoolingBackward(context.cudnn(), pooling.get(), factors.one(), y.get(),
                                           a.inputs[2], y.get(), a.inputs[0], x.get(), a.inputs[1],
                                           factors.zero(), x.get(), a.outputs[0]));
    };
    return cudnn::make_call("cudnnPoolingBackward", 0, 0, std::move(body));
  });
}

}  // namespace demi::cuda::pooling
