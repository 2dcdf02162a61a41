// The pooled forms of the family in two steps, with the image that joins them in the workspace.
// Capabilities do not ask for them: a kernel that never stores the image would have to beat cuDNN.

#include <algorithm>
#include <initializer_list>
#include <utility>

#include <demi/ops/conv2d.h>

#include "kernels/cuda/conv2d/candidates.h"
#include "kernels/cuda/pooling/register.h"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

using ops::Conv2DAttributes;

/// A convolution next to a max-pooling: `first` writes the image into the workspace, `second` reads
/// it.
class TwoSteps final : public Kernel {
 public:
  /// Where inputs of the whole kernel go; kImage stands for the image.
  using Inputs = std::vector<int>;
  static constexpr int kImage = -1;

  TwoSteps(std::string name, std::size_t image_bytes, std::unique_ptr<Kernel> first,
           Inputs first_inputs, std::unique_ptr<Kernel> second, Inputs second_inputs)
      : Kernel(std::move(name),
               aligned(image_bytes) + std::max(first->workspace_bytes(), second->workspace_bytes()),
               first->launches() + second->launches()),
        image_bytes_(aligned(image_bytes)),
        first_(std::move(first)),
        second_(std::move(second)),
        first_inputs_(std::move(first_inputs)),
        second_inputs_(std::move(second_inputs)) {}

  void run(const KernelArguments& arguments) override {
    void* image = arguments.workspace;
    void* rest = static_cast<std::byte*>(image) + image_bytes_;
    first_->run({pick(arguments, first_inputs_), {&image, 1}, rest});
    second_->run({pick(arguments, second_inputs_), arguments.outputs, rest});
  }

  [[nodiscard]] TensorCores tensor_cores() const override {
    return std::max(first_->tensor_cores(), second_->tensor_cores());
  }

  [[nodiscard]] std::string description() const override {
    return name() + ": " + first_->description() + "; " + second_->description();
  }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  /// The inputs of a step, valid until the next call.
  std::span<const void* const> pick(const KernelArguments& arguments, const Inputs& which) {
    picked_.clear();
    for (const int i : which) {
      picked_.push_back(i == kImage ? arguments.workspace
                                    : arguments.inputs[static_cast<std::size_t>(i)]);
    }
    return picked_;
  }

  std::size_t image_bytes_;
  std::unique_ptr<Kernel> first_, second_;
  Inputs first_inputs_, second_inputs_;
  std::vector<const void*> picked_;
};

std::unique_ptr<Kernel> first_of(std::initializer_list<Factory> factories,
                                 const KernelRequest& request, Context& context,
                                 std::string& reason) {
  for (const Factory factory : factories) {
    if (auto kernel = factory(request, context, reason)) return kernel;
  }
  return nullptr;
}

/// What lies between the convolution of `x` by `filter` and its pooling.
TensorType image_of(const Conv2DAttributes& attributes, const TensorType& x,
                    const TensorType& filter, DType dtype) {
  const auto& [top, bottom, left, right] = attributes.padding;
  const int first = attributes.filter_layout == ops::FilterLayout::kOhwi ? 1 : 0;
  const std::int64_t h = ops::window_positions(x.shape[1], top, bottom, filter.shape[first],
                                               attributes.strides[0], attributes.dilation_rate[0]);
  const std::int64_t w = ops::window_positions(x.shape[2], left, right, filter.shape[first + 1],
                                               attributes.strides[1], attributes.dilation_rate[1]);
  return {Shape{x.shape[0], h, w, filter.shape[first == 1 ? 0 : 3]}, dtype};
}

Conv2DAttributes without_pool(Conv2DAttributes attributes) {
  attributes.has_pool = false;
  return attributes;
}

/// The attributes of max_pool2d_backward that give `image`. Kernels that scatter know no relu.
ops::Pool2DAttributes scattering(const Conv2DAttributes& attributes, const TensorType& image) {
  ops::Pool2DAttributes pool = attributes.pool;
  pool.image_size = {image.shape[1], image.shape[2]};
  pool.relu = false;
  return pool;
}

}  // namespace

std::unique_ptr<Kernel> make_forward_then_pool(const KernelRequest& request, Context& context,
                                               std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  if (!attributes.has_pool) {
    reason = "no pooling follows";
    return nullptr;
  }
  const TensorType image =
      image_of(attributes, request.inputs[0], request.inputs[1], request.outputs[0].dtype);
  const Attributes convolution = without_pool(attributes);
  const Attributes pool = attributes.pool;
  auto first = first_of({make_cudnn_forward, make_cudnn_forward_then_bias, make_direct_forward},
                        {"conv2d", convolution, request.inputs, {&image, 1}}, context, reason);
  auto second =
      pooling::make_max_pool2d({"max_pool2d", pool, {&image, 1}, request.outputs}, context, reason);
  if (first == nullptr || second == nullptr) return nullptr;
  const TwoSteps::Inputs inputs =
      attributes.has_bias ? TwoSteps::Inputs{0, 1, 2} : TwoSteps::Inputs{0, 1};
  return std::make_unique<TwoSteps>("then_pool", image.bytes(), std::move(first), inputs,
                                    std::move(second), TwoSteps::Inputs{TwoSteps::kImage});
}

std::unique_ptr<Kernel> make_backward_input_scattered(const KernelRequest& request,
                                                      Context& context, std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  const TensorType& filter = request.inputs[0];
  const TensorType dy = image_of(attributes, request.outputs[0], filter, request.inputs[1].dtype);
  const Attributes convolution = without_pool(attributes);
  const Attributes pool = scattering(attributes, dy);
  auto first = pooling::make_max_pool2d_backward(
      {"max_pool2d_backward", pool, request.inputs.subspan(1), {&dy, 1}}, context, reason);
  const TensorType inputs[] = {dy, filter};
  auto second =
      first_of({make_cudnn_backward_input, make_direct_backward_input},
               {"conv2d_backward_input", convolution, inputs, request.outputs}, context, reason);
  if (first == nullptr || second == nullptr) return nullptr;
  return std::make_unique<TwoSteps>("scatter_first", dy.bytes(), std::move(first),
                                    TwoSteps::Inputs{1, 2}, std::move(second),
                                    TwoSteps::Inputs{TwoSteps::kImage, 0});
}

std::unique_ptr<Kernel> make_backward_filter_scattered(const KernelRequest& request,
                                                       Context& context, std::string& reason) {
  const auto& attributes = request.attributes.as<Conv2DAttributes>();
  const TensorType& x = request.inputs[0];
  const TensorType dy = image_of(attributes, x, request.outputs[0], request.inputs[1].dtype);
  const Attributes convolution = without_pool(attributes);
  const Attributes pool = scattering(attributes, dy);
  auto first = pooling::make_max_pool2d_backward(
      {"max_pool2d_backward", pool, request.inputs.subspan(1), {&dy, 1}}, context, reason);
  const TensorType inputs[] = {x, dy};
  auto second =
      first_of({make_cudnn_backward_filter, make_direct_backward_filter},
               {"conv2d_backward_filter", convolution, inputs, request.outputs}, context, reason);
  if (first == nullptr || second == nullptr) return nullptr;
  return std::make_unique<TwoSteps>("scatter_first", dy.bytes(), std::move(first),
                                    TwoSteps::Inputs{1, 2}, std::move(second),
                                    TwoSteps::Inputs{0, TwoSteps::kImage});
}

}  // namespace demi::cuda
