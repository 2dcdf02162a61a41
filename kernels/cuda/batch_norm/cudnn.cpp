// Calls of cuDNN for batch normalization. Not used of them: running statistics, whose variance is
// the unbiased one there, while Keras' is biased (the model's moving averages are ops of their own
// and take mean and variance), and the functions with fused activations, as the sizes of their
// workspaces can only be asked for where there is a device, so that no plan for a described one
// could count them.

#include <limits>

#include <fmt/format.h>

#include <demi/ops/batch_norm.h>

#include "kernels/cuda/batch_norm/register.h"
#include "kernels/cuda/cudnn/call.h"
#include "kernels/cuda/elementwise_calls.h"

namespace demi::cuda::batch_norm {
namespace {

using cudnn::Factors;
using cudnn::TensorDescriptor;
using ops::BatchNormAttributes;

constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;

/// What the calls have in common: `data` describes x and what is like it, `channels` the vectors of
/// one value per channel.
struct Call {
  TensorDescriptor data;
  TensorDescriptor channels;
  Factors factors;
  double epsilon;
  bool relu;
  TensorType x;
  DType statistics;
  Context& context;

  Call(const BatchNormAttributes& attributes, const TensorType& type, Context& ctx)
      : data(describe(type)),
        channels(accumulation_dtype(type.dtype), 1, 1, 1, static_cast<int>(type.shape[-1])),
        factors(type.dtype),
        epsilon(attributes.epsilon),
        relu(attributes.activation == ops::Activation::kRelu),
        x(type),
        statistics(accumulation_dtype(type.dtype)),
        context(ctx) {}

  [[nodiscard]] std::int64_t elements() const { return x.shape.elements(); }
  [[nodiscard]] std::int64_t channel_count() const { return x.shape[-1]; }

 private:
  /// Other ranks than 4 as one image.
  static TensorDescriptor describe(const TensorType& type) {
    const auto extent = [&](int axis) { return static_cast<int>(type.shape[axis]); };
    const int c = extent(-1);
    if (type.shape.rank() == 4) return {type.dtype, extent(0), extent(1), extent(2), c};
    return {type.dtype, 1, static_cast<int>(type.shape.elements() / c), 1, c};
  }
};

/// `data` are the tensors like x, `parameters` those of one value per channel.
bool applies(const KernelRequest& request, std::initializer_list<std::size_t> data,
             std::initializer_list<std::size_t> parameters, const Context& context,
             std::string& reason) {
  const TensorType& y = request.outputs[0];
  if (!cudnn::takes_dtype(y.dtype, context, reason)) return false;
  for (const std::size_t i : data) {
    if (request.inputs[i].dtype != y.dtype) {
      reason = "it computes tensors of one dtype";
      return false;
    }
  }
  const DType wide = accumulation_dtype(y.dtype);
  for (const std::size_t i : parameters) {
    if (request.inputs[i].dtype != wide) {
      reason = fmt::format("cuDNN wants gamma, beta and statistics in {}", to_string(wide));
      return false;
    }
  }
  if (y.shape.elements() == 0) {
    reason = "the batch is empty";
    return false;
  }
  if (y.shape.elements() > std::numeric_limits<int>::max()) {
    reason = "cuDNN counts in 32 bits";
    return false;
  }
  const double epsilon = request.attributes.as<BatchNormAttributes>().epsilon;
  if (epsilon < CUDNN_BN_MIN_EPSILON) {
    reason = fmt::format("cuDNN wants an epsilon of at least {}", CUDNN_BN_MIN_EPSILON);
    return false;
  }
  return true;
}

Call call_for(const KernelRequest& request, Context& context) {
  return {request.attributes.as<BatchNormAttributes>(), request.outputs[0], context};
}

void finish(const Call& c, void* y) {
  if (c.relu) apply_relu(y, c.x.dtype, c.elements(), c.context.stream());
}

}  // namespace

std::unique_ptr<Kernel> make_cudnn_train(const KernelRequest& request, Context& context,
                                         std::string& reason) {
  if (!applies(request, {0}, {1, 2}, context, reason)) return nullptr;
  return cudnn::or_reason(reason, [&] {
    Call call = call_for(request, context);
    const int own = call.relu ? 2 : 1;
    auto body = [c = std::move(call)](const KernelArguments& a) {
      void *mean = a.outputs[1], *variance = a.outputs[2], *inv_std = a.outputs[3];
      DEMI_CUDA_CHECK(cudnnBatchNormalizationForwardTraining(
          c.context.cudnn(), kMode, c.factors.one(), c.factors.zero(), c.data.get(), a.inputs[0],
          c.data.get(), a.outputs[0], c.channels.get(), a.inputs[1], a.inputs[2], 1.0, nullptr,
          nullptr, c.epsilon, mean, inv_std));
      recover_variance(inv_std, c.epsilon, variance, c.statistics, c.channel_count(),
                       c.context.stream());
      finish(c, a.outputs[0]);
    };
    return cudnn::make_call("cudnnBatchNormalizationForwardTraining", 0, own, std::move(body));
  });
}

std::unique_ptr<Kernel> make_cudnn_inference(const KernelRequest& request, Context& context,
                                             std::string& reason) {
  if (!applies(request, {0}, {1, 2, 3, 4}, context, reason)) return nullptr;
  return cudnn::or_reason(reason, [&] {
    Call call = call_for(request, context);
    const int own = call.relu ? 1 : 0;
    auto body = [c = std::move(call)](const KernelArguments& a) {
      DEMI_CUDA_CHECK(cudnnBatchNormalizationForwardInference(
          c.context.cudnn(), kMode, c.factors.one(), c.factors.zero(), c.data.get(), a.inputs[0],
          c.data.get(), a.outputs[0], c.channels.get(), a.inputs[1], a.inputs[2], a.inputs[3],
          a.inputs[4], c.epsilon));
      finish(c, a.outputs[0]);
    };
    return cudnn::make_call("cudnnBatchNormalizationForwardInference", 0, own, std::move(body));
  });
}

std::unique_ptr<Kernel> make_cudnn_backward(const KernelRequest& request, Context& context,
                                            std::string& reason) {
  if (!applies(request, {0, 1}, {2, 3, 4}, context, reason)) return nullptr;
  return cudnn::or_reason(reason, [&] {
    Call call = call_for(request, context);
    const int own = call.relu ? 1 : 0;
    const std::size_t workspace = call.relu ? call.x.bytes() : 0;
    auto body = [c = std::move(call)](const KernelArguments& a) {
      const void* dy = a.inputs[0];
      if (c.relu) {
        mask_gradient(dy, a.inputs[5], a.workspace, c.x.dtype, c.elements(), c.context.stream());
        dy = a.workspace;
      }
      DEMI_CUDA_CHECK(cudnnBatchNormalizationBackward(
          c.context.cudnn(), kMode, c.factors.one(), c.factors.zero(), c.factors.one(),
          c.factors.zero(), c.data.get(), a.inputs[1], c.data.get(), dy, c.data.get(), a.outputs[0],
          c.channels.get(), a.inputs[2], a.outputs[1], a.outputs[2], c.epsilon, a.inputs[3],
          a.inputs[4]));
    };
    return cudnn::make_call("cudnnBatchNormalizationBackward", workspace, own, std::move(body));
  });
}

std::unique_ptr<Kernel> make_cudnn_inference_backward(const KernelRequest&, Context&,
                                                      std::string& reason) {
  reason = "cuDNN has no gradient with given statistics";
  return nullptr;
}

}  // namespace demi::cuda::batch_norm
