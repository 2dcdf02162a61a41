#include <demi/ops/movement.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include <demi/ops/cast.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "src/ops/refuse.h"

namespace demi {
namespace ops {
namespace {

SymbolicTensor pad_slice(const SymbolicTensor& x, const SliceAttributes& attributes) {
  return ir::emit("pad_slice", {x}, attributes);
}

}  // namespace

std::string describe(const ReshapeAttributes& attributes) {
  return fmt::format("shape={}", attributes.shape.to_string());
}
std::string describe(const TransposeAttributes& attributes) {
  return fmt::format("permutation=[{}]", fmt::join(attributes.permutation, ", "));
}
std::string describe(const ConcatenateAttributes& attributes) {
  return fmt::format("axis={}", attributes.axis);
}
std::string describe(const SliceAttributes& attributes) {
  return fmt::format("begin=[{}], size=[{}]", fmt::join(attributes.begin, ", "),
                     fmt::join(attributes.size, ", "));
}

SymbolicTensor reshape(const SymbolicTensor& x, const Shape& shape) {
  return ir::emit("reshape", {x}, ReshapeAttributes{shape});
}

SymbolicTensor transpose(const SymbolicTensor& x, std::vector<int> permutation) {
  if (x && permutation.empty()) {
    for (int axis = x.shape().rank() - 1; axis >= 0; --axis) permutation.push_back(axis);
  }
  return ir::emit("transpose", {x}, TransposeAttributes{std::move(permutation)});
}

SymbolicTensor concatenate(const std::vector<SymbolicTensor>& inputs, int axis) {
  return ir::emit("concatenate", inputs, ConcatenateAttributes{axis});
}

SymbolicTensor slice(const SymbolicTensor& x, std::vector<std::int64_t> begin,
                     std::vector<std::int64_t> size) {
  return ir::emit("slice", {x}, SliceAttributes{std::move(begin), std::move(size), {}});
}

}  // namespace ops

namespace ir {
namespace {

using Gradients = std::vector<SymbolicTensor>;

// ---- Types ----------------------------------------------------------------------------------

/// Product of the known extents.
std::int64_t known_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) {
    if (extent != Shape::kUnknown) product *= extent;
  }
  return product;
}

/// The extent that makes `elements` elements together with `others`; none if there is no such.
std::optional<std::int64_t> missing_extent(std::int64_t elements, std::int64_t others) {
  if (others == 0 || elements % others != 0) return std::nullopt;
  return elements / others;
}

std::vector<TensorType> infer_reshape(const InferContext& context) {
  const Shape& target = context.attributes.as<ops::ReshapeAttributes>().shape;
  if (context.inputs.size() != 1) refuse("reshape", "one value", context.inputs);
  const TensorType& x = context.inputs[0];
  const auto unknown = std::count(target.begin(), target.end(), Shape::kUnknown);
  if (unknown > 1)
    refuse("reshape", "at most one extent -1 in " + target.to_string(), context.inputs);
  const std::int64_t elements = known_elements(x.shape);
  const std::int64_t others = known_elements(target);
  Shape result = target;
  if (!x.shape.is_known()) {
    // Samples are cut into rows of the result, or joined to them; whether the batch has as many as
    // that takes is seen when it is known.
    const bool regroups = missing_extent(elements, others) || missing_extent(others, elements);
    if (x.shape[0] != Shape::kUnknown || !x.shape.without_front().is_known() ||
        target.rank() == 0 || target[0] != Shape::kUnknown || !(elements == others || regroups)) {
      refuse("reshape", "a batch that fits into " + target.to_string(), context.inputs);
    }
  } else if (unknown == 1) {
    const std::optional<std::int64_t> extent = missing_extent(elements, others);
    if (!extent) refuse("reshape", "a value that fits into " + target.to_string(), context.inputs);
    const auto place = std::find(target.begin(), target.end(), Shape::kUnknown) - target.begin();
    result.set(static_cast<int>(place), *extent);
  } else if (elements != others) {
    refuse("reshape", fmt::format("{} elements for {}", others, target.to_string()),
           context.inputs);
  }
  return {{result, x.dtype}};
}

std::vector<TensorType> infer_transpose(const InferContext& context) {
  const auto& permutation = context.attributes.as<ops::TransposeAttributes>().permutation;
  std::vector<int> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int> axes(permutation.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (context.inputs.size() != 1 || sorted != axes ||
      context.inputs[0].shape.rank() != static_cast<int>(axes.size())) {
    refuse("transpose",
           fmt::format("one value whose axes [{}] permutes", fmt::join(permutation, ", ")),
           context.inputs);
  }
  const TensorType& x = context.inputs[0];
  Shape shape = x.shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    shape.set(static_cast<int>(i), x.shape[permutation[i]]);
  }
  return {{shape, x.dtype}};
}

std::vector<TensorType> infer_concatenate(const InferContext& context) {
  const int axis = context.attributes.as<ops::ConcatenateAttributes>().axis;
  const auto misfit = [&] {
    refuse("concatenate", fmt::format("shapes that agree but along axis {}", axis), context.inputs);
  };
  TensorType result = context.inputs[0];
  const int rank = result.shape.rank();
  if (axis < -rank || axis >= rank) misfit();
  const int joined = result.shape.normalize_axis(axis);
  for (const TensorType& input : context.inputs.subspan(1)) {
    if (input.shape.rank() != rank) misfit();
    result.dtype = promote(result.dtype, input.dtype);
    for (int i = 0; i < rank; ++i) {
      const std::int64_t a = result.shape[i];
      const std::int64_t b = input.shape[i];
      const bool unknown = a == Shape::kUnknown || b == Shape::kUnknown;
      if (i == joined) {
        result.shape.set(i, unknown ? Shape::kUnknown : a + b);
      } else if (unknown) {
        result.shape.set(i, std::max(a, b));
      } else if (a != b) {
        misfit();
      }
    }
  }
  return {result};
}

std::vector<TensorType> infer_slice(const InferContext& context) {
  const std::vector<std::int64_t>& begin = context.attributes.as<ops::SliceAttributes>().begin;
  const std::vector<std::int64_t>& size = context.attributes.as<ops::SliceAttributes>().size;
  const auto misfit = [&] {
    refuse("slice",
           fmt::format("one value that contains begin [{}], size [{}]", fmt::join(begin, ", "),
                       fmt::join(size, ", ")),
           context.inputs);
  };
  if (context.inputs.size() != 1) misfit();
  TensorType result = context.inputs[0];
  const auto rank = static_cast<std::size_t>(result.shape.rank());
  if (begin.size() != rank || size.size() != rank) misfit();
  for (std::size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i);
    const std::int64_t extent = result.shape[axis];
    const bool to_the_end = size[i] == -1;
    if (extent == Shape::kUnknown) {
      if (begin[i] != 0 || !to_the_end) misfit();
      continue;
    }
    const std::int64_t count = to_the_end ? extent - begin[i] : size[i];
    if (begin[i] < 0 || count < 0 || begin[i] > extent || count > extent - begin[i]) misfit();
    result.shape.set(axis, count);
  }
  return {result};
}

std::vector<TensorType> infer_pad_slice(const InferContext& context) {
  const auto& attributes = context.attributes.as<ops::SliceAttributes>();
  const auto misfit = [&] {
    refuse("pad_slice",
           fmt::format("one value that fits into {} at [{}]", attributes.shape.to_string(),
                       fmt::join(attributes.begin, ", ")),
           context.inputs);
  };
  if (context.inputs.size() != 1) misfit();
  const Shape& part = context.inputs[0].shape;
  const auto rank = static_cast<std::size_t>(attributes.shape.rank());
  if (part.rank() != attributes.shape.rank() || attributes.begin.size() != rank) misfit();
  for (std::size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i);
    if (attributes.begin[i] + part[axis] > attributes.shape[axis]) misfit();
  }
  return {{attributes.shape, context.inputs[0].dtype}};
}

// ---- Gradients ------------------------------------------------------------------------------

Gradients reshape_gradient(const GradientContext& context) {
  return {ops::reshape(context.output_gradients[0], context.inputs[0].shape())};
}

Gradients transpose_gradient(const GradientContext& context) {
  const auto& permutation = context.attributes.as<ops::TransposeAttributes>().permutation;
  std::vector<int> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<int>(i);
  }
  return {ops::transpose(context.output_gradients[0], std::move(inverse))};
}

Gradients concatenate_gradient(const GradientContext& context) {
  const SymbolicTensor& dy = context.output_gradients[0];
  const auto rank = static_cast<std::size_t>(dy.shape().rank());
  const auto axis = static_cast<std::size_t>(
      dy.shape().normalize_axis(context.attributes.as<ops::ConcatenateAttributes>().axis));
  Gradients result(context.inputs.size());
  std::vector<std::int64_t> begin(rank, 0);
  for (std::size_t i = 0; i < context.inputs.size(); ++i) {
    const SymbolicTensor& x = context.inputs[i];
    if (context.needed[i] && is_floating(x.dtype())) {
      std::vector<std::int64_t> size(x.shape().begin(), x.shape().end());
      result[i] = ops::cast(ops::slice(dy, begin, std::move(size)), x.dtype());
    }
    begin[axis] += x.shape()[static_cast<int>(axis)];
  }
  return result;
}

Gradients slice_gradient(const GradientContext& context) {
  ops::SliceAttributes attributes = context.attributes.as<ops::SliceAttributes>();
  attributes.shape = context.inputs[0].shape();
  return {ops::pad_slice(context.output_gradients[0], attributes)};
}

Gradients pad_slice_gradient(const GradientContext& context) {
  const Shape& part = context.inputs[0].shape();
  return {ops::slice(context.output_gradients[0],
                     context.attributes.as<ops::SliceAttributes>().begin,
                     {part.begin(), part.end()})};
}

}  // namespace

void register_movement_ops(OpRegistry& registry) {
  registry.add({.name = "reshape",
                .infer = infer_reshape,
                .autocast = AutocastRule::kKeep,
                .gradient = reshape_gradient,
                .is_view = true});
  registry.add({.name = "transpose",
                .infer = infer_transpose,
                .autocast = AutocastRule::kKeep,
                .gradient = transpose_gradient});
  registry.add(
      {.name = "concatenate", .infer = infer_concatenate, .gradient = concatenate_gradient});
  registry.add({.name = "slice",
                .infer = infer_slice,
                .autocast = AutocastRule::kKeep,
                .gradient = slice_gradient});
  registry.add({.name = "pad_slice",
                .infer = infer_pad_slice,
                .autocast = AutocastRule::kKeep,
                .gradient = pad_slice_gradient});
}

}  // namespace ir
}  // namespace demi
