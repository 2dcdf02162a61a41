#include <demi/ops/conv2d.h>

#include <fmt/format.h>

#include <demi/ops/cast.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi::ops {
namespace {

std::string pair(const std::array<std::int64_t, 2>& value) {
  return fmt::format("[{}, {}]", value[0], value[1]);
}

void check_operands(const SymbolicTensor& x, const SymbolicTensor& filter) {
  const TensorType types[] = {ir::type_of("conv2d", x), ir::type_of("conv2d", filter)};
  if (types[0].shape.rank() != 4 || !is_floating(types[0].dtype)) {
    ir::refuse("conv2d", "a 4-D floating input [N, H, W, C]", {types, 1});
  }
  if (types[1].shape.rank() != 4 || !is_floating(types[1].dtype)) {
    ir::refuse("conv2d", "a 4-D floating filter [KH, KW, C / groups, filters]", {types + 1, 1});
  }
  if (types[0].shape[1] < 0 || types[0].shape[2] < 0 || types[0].shape[3] < 0) {
    ir::refuse("conv2d", "an image of known height, width and channels", {types, 1});
  }
}

void check_options(const Conv2DOptions& options) {
  const auto& [strides, padding, dilation, groups] = options;
  if (strides[0] < 1 || strides[1] < 1 || dilation[0] < 1 || dilation[1] < 1 || groups < 1) {
    internal::fail_argument(
        "conv2d", fmt::format("expected strides, dilation_rate and groups of at least 1. Received: "
                              "strides {}, dilation_rate {}, groups {}.",
                              pair(strides), pair(dilation), groups));
  }
  if ((strides[0] > 1 || strides[1] > 1) && (dilation[0] > 1 || dilation[1] > 1)) {
    internal::fail_argument(
        "conv2d", fmt::format("expected strides or dilation_rate of 1. Received: strides {} and "
                              "dilation_rate {}.",
                              pair(strides), pair(dilation)));
  }
}

}  // namespace

std::string describe(const Conv2DAttributes& attributes) {
  std::string text =
      fmt::format("strides={}, padding={}", pair(attributes.strides), describe(attributes.padding));
  if (attributes.dilation_rate != std::array<std::int64_t, 2>{1, 1}) {
    text += ", dilation_rate=" + pair(attributes.dilation_rate);
  }
  if (attributes.groups != 1) text += fmt::format(", groups={}", attributes.groups);
  if (attributes.has_bias) text += ", bias";
  if (attributes.activation != Activation::kNone) {
    text += fmt::format(", activation={}", to_string(attributes.activation));
  }
  if (attributes.has_pool) text += fmt::format(", pool={{{}}}", describe(attributes.pool));
  if (attributes.result_size[0] > 0) text += ", result_size=" + pair(attributes.result_size);
  if (attributes.filter_layout == FilterLayout::kOhwi) text += ", filter=ohwi";
  return text;
}

SymbolicTensor conv2d(const SymbolicTensor& x, const SymbolicTensor& filter,
                      const Conv2DOptions& options) {
  check_operands(x, filter);
  check_options(options);
  Conv2DAttributes attributes;
  attributes.strides = options.strides;
  attributes.dilation_rate = options.dilation_rate;
  attributes.groups = options.groups;
  attributes.padding = resolve_padding(options.padding, {x.shape()[1], x.shape()[2]},
                                       {filter.shape()[0], filter.shape()[1]}, options.strides,
                                       options.dilation_rate);
  return ir::emit("conv2d", {x, filter}, attributes);
}

SymbolicTensor conv2d_backward_input(const SymbolicTensor& dy, const SymbolicTensor& filter,
                                     const Conv2DAttributes& attributes) {
  return ir::emit("conv2d_backward_input", {dy, filter}, attributes);
}

SymbolicTensor conv2d_backward_filter(const SymbolicTensor& x, const SymbolicTensor& dy,
                                      const Conv2DAttributes& attributes) {
  return ir::emit("conv2d_backward_filter", {x, dy}, attributes);
}

}  // namespace demi::ops

namespace demi::ir {
namespace {

using ops::Conv2DAttributes;
using Extents = std::array<std::int64_t, 2>;

/// The extents of a filter, whatever their order.
struct FilterShape {
  Extents size;
  std::int64_t channels;  ///< of a group
  std::int64_t filters;
};

FilterShape filter_shape(const Conv2DAttributes& attributes, const Shape& shape) {
  if (attributes.filter_layout == ops::FilterLayout::kOhwi) {
    return {{shape[1], shape[2]}, shape[3], shape[0]};
  }
  return {{shape[0], shape[1]}, shape[2], shape[3]};
}

/// Output extents of a convolution (not pooled).
Extents convolved(const Conv2DAttributes& attributes, Extents image, Extents filter) {
  const auto& [top, bottom, left, right] = attributes.padding;
  return {ops::window_positions(image[0], top, bottom, filter[0], attributes.strides[0],
                                attributes.dilation_rate[0]),
          ops::window_positions(image[1], left, right, filter[1], attributes.strides[1],
                                attributes.dilation_rate[1])};
}

/// The extents after the fused pooling, if there is one.
Extents pooled(const Conv2DAttributes& attributes, Extents image) {
  if (!attributes.has_pool) return image;
  const auto& [size, strides, padding, relu, image_size, bias_gradient, from_image] =
      attributes.pool;
  return {ops::window_positions(image[0], padding.top, padding.bottom, size[0], strides[0]),
          ops::window_positions(image[1], padding.left, padding.right, size[1], strides[1])};
}

/// Of a convolution of `n` images before a pooling.
double multiply_adds_of(const Conv2DAttributes& attributes, std::int64_t n, Extents image,
                        const FilterShape& filter) {
  const Extents positions = convolved(attributes, image, filter.size);
  return static_cast<double>(n * positions[0] * positions[1]) *
         static_cast<double>(filter.size[0] * filter.size[1] * filter.channels * filter.filters);
}

double conv2d_multiply_adds(const InferContext& context) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  const Shape& x = context.inputs[0].shape;
  const Shape& filter = context.inputs[1].shape;
  return multiply_adds_of(attributes, x[0], {x[1], x[2]}, filter_shape(attributes, filter));
}

/// Those of the dense gradient, also where kernels skip zeros.
double backward_input_multiply_adds(const InferContext& context) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  const Shape& dy = context.inputs[attributes.has_pool ? 1 : 0].shape;
  const Shape& filter = context.inputs[attributes.has_pool ? 0 : 1].shape;
  return multiply_adds_of(attributes, dy[0], attributes.result_size,
                          filter_shape(attributes, filter));
}

double backward_filter_multiply_adds(const InferContext& context) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  const Shape& x = context.inputs[0].shape;
  const std::int64_t filters = context.inputs[1].shape[3];
  return multiply_adds_of(attributes, x[0], {x[1], x[2]},
                          {attributes.result_size, x[3] / attributes.groups, filters});
}

std::vector<TensorType> infer_conv2d(const InferContext& context) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  DEMI_CHECK(context.inputs.size() == (attributes.has_bias ? 3 : 2),
             "conv2d takes x, a filter and, if it has one, a bias");
  const TensorType& x = context.inputs[0];
  const TensorType& filter = context.inputs[1];
  const std::int64_t channels = x.shape[3];
  const auto [size, group_channels, filters] = filter_shape(attributes, filter.shape);
  const std::int64_t groups = attributes.groups;
  if (channels != group_channels * groups || filters % groups != 0) {
    refuse("conv2d",
           fmt::format("a filter [KH, KW, C / groups, filters] whose channels are those of the "
                       "input, and groups that divide both (groups={})",
                       groups),
           context.inputs.first(2));
  }
  const Extents image = {x.shape[1], x.shape[2]};
  const Extents full = convolved(attributes, image, size);
  if (size[0] < 1 || size[1] < 1 || full[0] < 1 || full[1] < 1 || channels < 1 || filters < 1) {
    refuse("conv2d",
           fmt::format("a filter that is not empty and fits the image (padding={}, "
                       "dilation_rate={})",
                       ops::describe(attributes.padding), ops::pair(attributes.dilation_rate)),
           context.inputs.first(2));
  }
  DEMI_CHECK(!attributes.has_bias || context.inputs[2].shape == Shape{filters},
             "the bias must be [filters]");
  const auto [h, w] = pooled(attributes, full);
  const Shape shape{x.shape[0], h, w, filters};
  std::vector<TensorType> types = {{shape, promote(x.dtype, filter.dtype)}};
  if (attributes.has_pool) types.push_back({shape, DType::kUint8});
  return types;
}

/// Refuses dy (and, with a pooling, its index) unless it fits a convolution of `image` by `filter`
/// into `filters` channels.
void check_dy(const char* where, const InferContext& context, const TensorType& dy, Extents image,
              Extents filter, std::int64_t filters) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  const auto [h, w] = pooled(attributes, convolved(attributes, image, filter));
  const Shape expected{dy.shape.rank() == 4 ? dy.shape[0] : Shape::kUnknown, h, w, filters};
  if (dy.shape != expected || !is_floating(dy.dtype)) {
    refuse(where, fmt::format("dy {}", expected.to_string()), context.inputs);
  }
  DEMI_CHECK(context.inputs.size() == (attributes.has_pool ? 3 : 2),
             "a pooled backward op takes the index, the others do not");
  DEMI_CHECK(!attributes.has_pool || context.inputs[2] == (TensorType{dy.shape, DType::kUint8}),
             "the index must be uint8 of dy's shape");
}

/// dx from dy and the filter, or, pooled, from the filter, dy and index.
std::vector<TensorType> infer_input_gradient(const char* where, const InferContext& context,
                                             const TensorType& dy, const TensorType& filter) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  if (filter.shape.rank() != 4) refuse(where, "a 4-D filter", context.inputs);
  const Extents image = attributes.result_size;
  const auto [size, channels, filters] = filter_shape(attributes, filter.shape);
  check_dy(where, context, dy, image, size, filters);
  return {{Shape{dy.shape[0], image[0], image[1], channels * attributes.groups},
           promote(dy.dtype, filter.dtype)}};
}

std::vector<TensorType> infer_backward_input(const InferContext& context) {
  return infer_input_gradient("conv2d_backward_input", context, context.inputs[0],
                              context.inputs[1]);
}

std::vector<TensorType> infer_backward_input_pooled(const InferContext& context) {
  return infer_input_gradient("conv2d_backward_input_pooled", context, context.inputs[1],
                              context.inputs[0]);
}

/// dfilter from x, dy and, pooled, the index.
std::vector<TensorType> infer_backward_filter(const InferContext& context) {
  const auto& attributes = context.attributes.as<Conv2DAttributes>();
  const char* where =
      attributes.has_pool ? "conv2d_backward_filter_pooled" : "conv2d_backward_filter";
  const TensorType& x = context.inputs[0];
  const TensorType& dy = context.inputs[1];
  if (x.shape.rank() != 4 || dy.shape.rank() != 4 || x.shape[0] != dy.shape[0] ||
      x.shape[3] % attributes.groups != 0) {
    refuse(where, "x and dy [N, H, W, C] of one batch", context.inputs);
  }
  const Extents size = attributes.result_size;
  check_dy(where, context, dy, {x.shape[1], x.shape[2]}, size, dy.shape[3]);
  const std::int64_t channels = x.shape[3] / attributes.groups;
  const std::int64_t filters = dy.shape[3];
  const bool ohwi = attributes.filter_layout == ops::FilterLayout::kOhwi;
  return {{ohwi ? Shape{filters, size[0], size[1], channels}
                : Shape{size[0], size[1], channels, filters},
           promote(x.dtype, dy.dtype)}};
}

std::vector<SymbolicTensor> conv2d_gradient(const GradientContext& context) {
  auto attributes = context.attributes.as<Conv2DAttributes>();
  DEMI_CHECK(!attributes.has_bias && !attributes.has_pool &&
                 attributes.activation == ops::Activation::kNone,
             "fused nodes are made after differentiation");
  const SymbolicTensor& x = context.inputs[0];
  const SymbolicTensor& filter = context.inputs[1];
  const SymbolicTensor& dy = context.output_gradients[0];
  std::vector<SymbolicTensor> gradients(2);
  if (context.needed[0]) {
    attributes.result_size = {x.shape()[1], x.shape()[2]};
    gradients[0] = ops::cast(ops::conv2d_backward_input(dy, filter, attributes), x.dtype());
  }
  if (context.needed[1]) {
    attributes.result_size = {filter.shape()[0], filter.shape()[1]};
    gradients[1] = ops::cast(ops::conv2d_backward_filter(x, dy, attributes), filter.dtype());
  }
  return gradients;
}

}  // namespace

void register_conv2d_ops(OpRegistry& registry) {
  registry.add({.name = "conv2d",
                .infer = infer_conv2d,
                .autocast = AutocastRule::kLowPrecision,
                .gradient = conv2d_gradient,
                .multiply_adds = conv2d_multiply_adds,
                .store = StoreRule::kAccumulation});
  const auto add_backward = [&registry](const char* name, auto infer, auto multiply_adds) {
    registry.add({.name = name,
                  .infer = infer,
                  .autocast = AutocastRule::kKeep,
                  .multiply_adds = multiply_adds,
                  .store = StoreRule::kAccumulation});
  };
  add_backward("conv2d_backward_input", infer_backward_input, backward_input_multiply_adds);
  add_backward("conv2d_backward_filter", infer_backward_filter, backward_filter_multiply_adds);
  add_backward("conv2d_backward_input_pooled", infer_backward_input_pooled,
               backward_input_multiply_adds);
  add_backward("conv2d_backward_filter_pooled", infer_backward_filter,
               backward_filter_multiply_adds);
}

}  // namespace demi::ir
