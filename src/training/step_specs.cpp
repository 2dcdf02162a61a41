#include "src/training/step_specs.h"

#include <algorithm>
#include <utility>

#include "src/core/check.h"
#include "src/training/dataset/validate.h"
#include "src/training/target_shapes.h"

namespace demi::internal {
namespace {

void check_count(std::size_t expected, std::size_t received, const std::string& what,
                 const std::string& where) {
  if (expected == received) return;
  fail_argument(where, "expected " + std::to_string(expected) + " " + what +
                           (expected == 1 ? " array" : " arrays") + ", one for each " + what +
                           " of the model. Received: " + std::to_string(received) + ".");
}

/// The model's shape for `rows` samples, if `stored` (samples first) can be read as it.
Shape input_shape(const Shape& wanted, const Shape& stored, std::int64_t rows,
                  const std::string& name, const std::string& where) {
  const auto trimmed = [](Shape shape) {
    return shape.rank() > 1 && shape[-1] == 1
               ? Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1)))
               : shape;
  };
  const Shape sample = stored.without_front().with_front(Shape::kUnknown);
  Shape result = sample;
  if (!compatible(wanted, sample)) {
    if (!compatible(trimmed(wanted), trimmed(sample))) {
      fail_argument(where, "expected " + name + " of shape " + wanted.to_string() +
                               ". Received: " + stored.to_string() + ".");
    }
    result = wanted;
  }
  result.set(0, rows);
  return result;
}

FeedSpec input_spec(const LayerGraph& model, std::size_t index, const Dataset& data,
                    std::int64_t rows, const std::string& where) {
  const Tensor& stored = data.input(index);
  const TensorType& wanted = model.type(model.inputs[index].value);
  const std::string name = "input '" + model.inputs[index].name + "'";
  const Rescale rescale = data.input_rescale(index);
  if (!is_floating(wanted.dtype) && (is_floating(stored.dtype()) || rescale != Rescale())) {
    fail_argument(where, "expected integers for " + name + ", which is " +
                             std::string(to_string(wanted.dtype)) +
                             ". Received: " + (rescale != Rescale() ? "rescaled " : "") +
                             std::string(to_string(stored.dtype())) + ".");
  }
  return {.name = model.inputs[index].name,
          .type = {input_shape(wanted.shape, stored.shape(), rows, name, where), stored.dtype()},
          .scale = rescale.scale,
          .offset = rescale.offset};
}

}  // namespace

StepSpec make_step_spec(const LayerGraph& model, const TrainingSpec* training, StepMode mode,
                        const Dataset& data, std::int64_t rows, std::uint64_t seed,
                        const std::string& where) {
  check_count(model.inputs.size(), data.input_count(), "input", where);
  StepSpec spec;
  spec.mode = mode;
  spec.seed = seed;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    spec.inputs.push_back(input_spec(model, i, data, rows, where));
  }
  if (mode == StepMode::kPredict) return spec;
  check_count(training->losses.size(), data.target_count(), "output", where);
  for (std::size_t i = 0; i < data.target_count(); ++i) {
    const Tensor& stored = data.target(i);
    spec.targets.push_back(
        {.name = "y_true_" + std::to_string(i),
         .type = {stored.shape().without_front().with_front(rows), stored.dtype()}});
  }
  return spec;
}

StepSpec make_step_spec(const LayerGraph& model, const TrainingSpec* training, StepMode mode,
                        std::int64_t rows, const std::string& where) {
  StepSpec spec;
  spec.mode = mode;
  for (const LayerGraph::Input& input : model.inputs) {
    TensorType type = model.type(input.value);
    type.shape.set(0, rows);
    if (!type.shape.is_known()) {
      fail_argument(where, "expected data, since input '" + input.name + "' has unknown extents: " +
                               type.shape.to_string() + ". Received: none.");
    }
    spec.inputs.push_back({.name = input.name, .type = type});
  }
  if (mode == StepMode::kPredict) return spec;
  for (std::size_t i = 0; i < training->losses.size(); ++i) {
    const bool is_labels =
        training->losses[i] && training->losses[i].target() == TargetKind::kClassIndices;
    TensorType type = model.output_type(i);
    if (is_labels) {
      const auto rank = static_cast<std::size_t>(type.shape.rank());
      type = {Shape(type.shape.dims().first(rank - 1)), DType::kInt32};
    }
    type.shape.set(0, rows);
    spec.targets.push_back({.name = "y_true_" + std::to_string(i), .type = type});
  }
  return spec;
}

bool same_step(const StepSpec& a, const StepSpec& b) {
  const auto same_feeds = [](const std::vector<FeedSpec>& x, const std::vector<FeedSpec>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](const FeedSpec& f, const FeedSpec& g) {
                        return f.type == g.type && f.scale == g.scale && f.offset == g.offset &&
                               f.array == g.array;
                      });
  };
  return a.mode == b.mode && a.seed == b.seed && same_feeds(a.inputs, b.inputs) &&
         same_feeds(a.targets, b.targets);
}

void check_values(const LayerGraph& model, const TrainingSpec* training, const Dataset& data,
                  bool allow_non_finite, const std::string& where) {
  if (!allow_non_finite) check_finite(data, where);
  if (training == nullptr) return;
  for (std::size_t i = 0; i < training->losses.size(); ++i) {
    if (!training->losses[i] || training->losses[i].target() != TargetKind::kClassIndices) continue;
    const std::int64_t classes = model.output_type(i).shape[-1];
    if (classes != Shape::kUnknown) check_labels(data, i, classes, where);
  }
}

}  // namespace demi::internal
