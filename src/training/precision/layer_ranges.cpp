#include "src/training/precision/layer_ranges.h"

#include <algorithm>

#include <fmt/format.h>

namespace demi::internal {
namespace {

LayerRange& entry_of(LayerRanges& ranges, const std::string& layer) {
  const auto found = std::find_if(ranges.begin(), ranges.end(),
                                  [&](const LayerRange& range) { return range.layer == layer; });
  if (found != ranges.end()) return *found;
  ranges.push_back({.layer = layer, .activation = {}, .gradient = {}});
  return ranges.back();
}

std::string name_of(const std::string& layer) {
  return layer.empty() ? "the loss" : layer;
}

}  // namespace

LayerRanges look_at_ranges(ObservedStep& step) {
  LayerRanges ranges;
  step.observe([&](const ObservedValue& value, const Tensor& tensor) {
    if (!value.is_narrow) return;
    LayerRange& entry = entry_of(ranges, value.layer);
    (value.phase == ir::Phase::kForward ? entry.activation : entry.gradient).add(range_of(tensor));
  });
  return ranges;
}

void add_ranges(LayerRanges& to, const LayerRanges& other) {
  for (const LayerRange& range : other) {
    LayerRange& entry = entry_of(to, range.layer);
    entry.activation.add(range.activation);
    entry.gradient.add(range.gradient);
  }
}

RangeSample summarize_ranges(const LayerRanges& ranges, std::int64_t step, double loss_scale) {
  RangeSample sample{.step = step, .loss_scale = loss_scale};
  for (const LayerRange& range : ranges) {
    if (range.activation.max_abs > sample.max_activation) {
      sample.max_activation = range.activation.max_abs;
      sample.activation_layer = range.layer;
    }
    if (range.gradient.max_abs > sample.max_gradient) {
      sample.max_gradient = range.gradient.max_abs;
      sample.gradient_layer = range.layer;
    }
  }
  return sample;
}

std::string to_string(const RangeSample& sample) {
  return fmt::format(
      "step {}: loss scale {:g}, max |activation| {:.3g} in {}, max |gradient| {:.3g} in {}, "
      "{:.3g} "
      "when scaled",
      sample.step, sample.loss_scale, sample.max_activation, name_of(sample.activation_layer),
      sample.max_gradient, name_of(sample.gradient_layer), sample.max_gradient * sample.loss_scale);
}

}  // namespace demi::internal
