// LayerRanges: the ranges of what the layers of a step compute.
#pragma once

#include <string>
#include <vector>

#include "src/training/precision/observed_step.h"
#include "src/training/precision/value_range.h"

namespace demi::internal {

struct LayerRange {
  std::string layer;  ///< path, "" for losses
  ValueRange activation;
  ValueRange gradient;  ///< without loss scale
};

/// In the order in which the layers first compute something.
using LayerRanges = std::vector<LayerRange>;

/// What float16 would hold in the batch that `step`, made with Precision::kFloat32, is at.
[[nodiscard]] LayerRanges look_at_ranges(ObservedStep& step);

/// Adds the values of other looks at the same model.
void add_ranges(LayerRanges& to, const LayerRanges& other);

/// The largest of a look, and where they are.
[[nodiscard]] RangeSample summarize_ranges(const LayerRanges& ranges, std::int64_t step,
                                           double loss_scale);
[[nodiscard]] std::string to_string(const RangeSample& sample);

}  // namespace demi::internal
