#include <demi/ops/pooling.h>

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/graph.h"
#include "src/ir/op_registry.h"

namespace demi::ops {
namespace {

std::int64_t span(std::int64_t size, std::int64_t dilation) {
  return (size - 1) * dilation + 1;
}

std::int64_t same_padding(std::int64_t extent, std::int64_t size, std::int64_t stride,
                          std::int64_t dilation) {
  const std::int64_t positions = (extent + stride - 1) / stride;
  return std::max<std::int64_t>((positions - 1) * stride + span(size, dilation) - extent, 0);
}

void check_image(const char* where, const TensorType& x) {
  if (x.shape.rank() != 4 || !is_floating(x.dtype)) {
    internal::fail_argument(where, fmt::format("expected a 4-D floating input [N, H, W, C]. "
                                               "Received: {}.",
                                               x.to_string()));
  }
  if (x.shape[1] < 0 || x.shape[2] < 0) {
    internal::fail_argument(where, fmt::format("expected an image of known height and width. "
                                               "Received: {}.",
                                               x.shape.to_string()));
  }
}

Pool2DAttributes resolve(const char* where, const TensorType& x, const Pool2DOptions& options) {
  check_image(where, x);
  Pool2DAttributes attributes;
  attributes.pool_size = options.pool_size;
  for (std::size_t i = 0; i < 2; ++i) {
    if (options.pool_size[i] < 1 || options.strides[i] < 0) {
      internal::fail_argument(
          where, fmt::format("expected a pool size of at least 1 and strides of at least 1 (or 0 "
                             "for the pool size). Received: pool_size [{}, {}], strides [{}, {}].",
                             options.pool_size[0], options.pool_size[1], options.strides[0],
                             options.strides[1]));
    }
    attributes.strides[i] = options.strides[i] == 0 ? options.pool_size[i] : options.strides[i];
  }
  attributes.padding = resolve_padding(options.padding, {x.shape[1], x.shape[2]},
                                       attributes.pool_size, attributes.strides);
  return attributes;
}

}  // namespace

PaddingMode parse_padding(std::string_view name, const char* where) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "valid") return PaddingMode::kValid;
  if (lower == "same") return PaddingMode::kSame;
  constexpr std::string_view kNames[] = {"valid", "same"};
  internal::fail_argument(where,
                          fmt::format("expected padding 'valid' or 'same'. Received: '{}'.{}", name,
                                      internal::did_you_mean(lower, kNames)));
}

std::string describe(const Padding2D& padding) {
  if (padding == Padding2D{}) return "valid";
  return fmt::format("[{}, {}, {}, {}]", padding.top, padding.bottom, padding.left, padding.right);
}

Padding2D resolve_padding(PaddingMode mode, std::array<std::int64_t, 2> image,
                          std::array<std::int64_t, 2> size, std::array<std::int64_t, 2> strides,
                          std::array<std::int64_t, 2> dilation) {
  if (mode == PaddingMode::kValid) return {};
  const std::int64_t rows = same_padding(image[0], size[0], strides[0], dilation[0]);
  const std::int64_t columns = same_padding(image[1], size[1], strides[1], dilation[1]);
  return {.top = rows / 2,
          .bottom = rows - rows / 2,
          .left = columns / 2,
          .right = columns - columns / 2};
}

std::int64_t window_positions(std::int64_t extent, std::int64_t pad_before, std::int64_t pad_after,
                              std::int64_t size, std::int64_t stride, std::int64_t dilation) {
  const std::int64_t room = extent + pad_before + pad_after - span(size, dilation);
  return room < 0 ? 0 : room / stride + 1;
}

std::string describe(const Pool2DAttributes& attributes) {
  std::string text =
      fmt::format("pool_size=[{}, {}], strides=[{}, {}], padding={}", attributes.pool_size[0],
                  attributes.pool_size[1], attributes.strides[0], attributes.strides[1],
                  describe(attributes.padding));
  if (attributes.relu) text += ", relu";
  if (attributes.image_size[0] > 0) {
    text +=
        fmt::format(", image_size=[{}, {}]", attributes.image_size[0], attributes.image_size[1]);
  }
  if (attributes.bias_gradient) text += ", bias_gradient";
  if (attributes.from_image) text += ", from_image";
  return text;
}

std::pair<SymbolicTensor, SymbolicTensor> max_pool2d(const SymbolicTensor& x,
                                                     const Pool2DOptions& options) {
  const auto outputs =
      ir::emit_all("max_pool2d", {x}, resolve("max_pool2d", ir::type_of("max_pool2d", x), options));
  return {outputs[0], outputs[1]};
}

SymbolicTensor max_pool2d_backward(const SymbolicTensor& dy, const SymbolicTensor& index,
                                   const Pool2DAttributes& attributes) {
  return ir::emit("max_pool2d_backward", {dy, index}, attributes);
}

SymbolicTensor average_pool2d(const SymbolicTensor& x, const Pool2DOptions& options) {
  return ir::emit("average_pool2d", {x},
                  resolve("average_pool2d", ir::type_of("average_pool2d", x), options));
}

SymbolicTensor average_pool2d_backward(const SymbolicTensor& dy,
                                       const Pool2DAttributes& attributes) {
  return ir::emit("average_pool2d_backward", {dy}, attributes);
}

}  // namespace demi::ops

namespace demi::ir {
namespace {

using ops::Pool2DAttributes;

/// Output extents of the windows of `attributes` on an image.
std::array<std::int64_t, 2> pooled_size(const char* where, const Pool2DAttributes& attributes,
                                        std::array<std::int64_t, 2> image) {
  const auto& [top, bottom, left, right] = attributes.padding;
  const auto& size = attributes.pool_size;
  const std::int64_t h =
      ops::window_positions(image[0], top, bottom, size[0], attributes.strides[0]);
  const std::int64_t w =
      ops::window_positions(image[1], left, right, size[1], attributes.strides[1]);
  if (h < 1 || w < 1) {
    internal::fail_argument(
        where,
        fmt::format("expected a window that fits the image. Received: a window of [{}, {}] "
                    "on an image of [{}, {}] with padding {}.",
                    size[0], size[1], image[0], image[1], ops::describe(attributes.padding)));
  }
  // A window must never lie in the padding alone: it would have no maximum and no mean.
  DEMI_CHECK(top < size[0] && bottom < size[0] && left < size[1] && right < size[1],
             "the padding of a pooling is as large as its window");
  return {h, w};
}

TensorType infer_pooled(const char* where, const TensorType& x,
                        const Pool2DAttributes& attributes) {
  ops::check_image(where, x);
  const auto [h, w] = pooled_size(where, attributes, {x.shape[1], x.shape[2]});
  return {Shape{x.shape[0], h, w, x.shape[3]}, x.dtype};
}

TensorType infer_image(const char* where, const TensorType& dy,
                       const Pool2DAttributes& attributes) {
  ops::check_image(where, dy);
  const auto image = attributes.image_size;
  if (pooled_size(where, attributes, image) != std::array{dy.shape[1], dy.shape[2]}) {
    internal::fail_argument(where,
                            fmt::format("expected dy of the pooling of an image of [{}, {}]. "
                                        "Received: {}.",
                                        image[0], image[1], dy.shape.to_string()));
  }
  return {Shape{dy.shape[0], image[0], image[1], dy.shape[3]}, dy.dtype};
}

std::vector<TensorType> infer_max_pool2d(const InferContext& context) {
  const auto& attributes = context.attributes.as<Pool2DAttributes>();
  if (attributes.pool_size[0] * attributes.pool_size[1] > 255) {
    internal::fail_argument("max_pool2d",
                            fmt::format("expected a window of at most 255 elements. Received: "
                                        "pool_size [{}, {}].",
                                        attributes.pool_size[0], attributes.pool_size[1]));
  }
  TensorType y = infer_pooled("max_pool2d", context.inputs[0], attributes);
  if (attributes.from_image) return {std::move(y)};
  TensorType index{y.shape, DType::kUint8};
  return {std::move(y), std::move(index)};
}

std::vector<TensorType> infer_max_pool2d_backward(const InferContext& context) {
  const auto& attributes = context.attributes.as<Pool2DAttributes>();
  const TensorType& dy = context.inputs[0];
  if (attributes.from_image) {
    DEMI_CHECK(context.inputs.size() == 3 && context.inputs[2] == dy && !attributes.relu &&
                   !attributes.bias_gradient,
               "max_pool2d_backward from the image takes dy, x, y and fuses nothing");
    const TensorType image = infer_image("max_pool2d_backward", dy, attributes);
    DEMI_CHECK(context.inputs[1] == image, "x is not the image that was pooled");
    return {image};
  }
  const TensorType& index = context.inputs[1];
  if (index.dtype != DType::kUint8 || index.shape != dy.shape) {
    internal::fail_argument("max_pool2d_backward",
                            fmt::format("expected an index uint8{}. Received: {}.",
                                        dy.shape.to_string(), index.to_string()));
  }
  DEMI_CHECK(context.inputs.size() == (attributes.relu ? 3 : 2),
             "max_pool2d_backward takes y with relu and only then");
  DEMI_CHECK(!attributes.relu || context.inputs[2].shape == dy.shape, "y and dy differ in shape");
  std::vector<TensorType> types = {infer_image("max_pool2d_backward", dy, attributes)};
  if (attributes.bias_gradient) types.push_back({Shape{dy.shape[3]}, accumulation_dtype(dy.dtype)});
  return types;
}

/// A gradient that a relu masks is not the scattered dy, and without an index there are no places.
std::optional<Scatter> max_pool2d_scatter(const Node& node) {
  const auto& attributes = node.attributes.as<Pool2DAttributes>();
  if (attributes.relu || attributes.from_image) return std::nullopt;
  return Scatter{.values = 0, .places = 1};
}

std::vector<TensorType> infer_average_pool2d(const InferContext& context) {
  return {
      infer_pooled("average_pool2d", context.inputs[0], context.attributes.as<Pool2DAttributes>())};
}

std::vector<TensorType> infer_average_pool2d_backward(const InferContext& context) {
  return {infer_image("average_pool2d_backward", context.inputs[0],
                      context.attributes.as<Pool2DAttributes>())};
}

Pool2DAttributes with_image_of(const GradientContext& context) {
  auto attributes = context.attributes.as<Pool2DAttributes>();
  const Shape& x = context.inputs[0].shape();
  attributes.image_size = {x[1], x[2]};
  return attributes;
}

std::vector<SymbolicTensor> max_pool2d_gradient(const GradientContext& context) {
  const Pool2DAttributes attributes = with_image_of(context);
  std::vector<SymbolicTensor> inputs = {context.output_gradients[0], context.outputs[1]};
  if (attributes.relu) inputs.push_back(context.outputs[0]);
  return {emit("max_pool2d_backward", std::move(inputs), attributes)};
}

std::vector<SymbolicTensor> average_pool2d_gradient(const GradientContext& context) {
  return {ops::average_pool2d_backward(context.output_gradients[0], with_image_of(context))};
}

}  // namespace

void register_pooling_ops(OpRegistry& registry) {
  registry.add({.name = "max_pool2d",
                .infer = infer_max_pool2d,
                .autocast = AutocastRule::kKeep,
                .gradient = max_pool2d_gradient});
  registry.add({.name = "max_pool2d_backward",
                .infer = infer_max_pool2d_backward,
                .autocast = AutocastRule::kKeep,
                .scatter = max_pool2d_scatter});
  registry.add({.name = "average_pool2d",
                .infer = infer_average_pool2d,
                .autocast = AutocastRule::kKeep,
                .gradient = average_pool2d_gradient});
  registry.add({.name = "average_pool2d_backward",
                .infer = infer_average_pool2d_backward,
                .autocast = AutocastRule::kKeep});
}

}  // namespace demi::ir
