// From a data set to the feeds of a step: what fit, evaluate and predict check before they compile.
#pragma once

#include <cstdint>
#include <string>

#include <demi/dataset.h>

#include "src/layers/layer_graph.h"
#include "src/training/compile.h"

namespace demi::internal {

/// What a step of `mode` on batches of `rows` samples of `data` is compiled for. Throws
/// std::invalid_argument "[where] …" if the data do not have the inputs and targets of the model,
/// or not their shapes; a missing or additional last axis of extent 1 in an input is put right.
/// `training` is null for kPredict, which ignores targets.
[[nodiscard]] StepSpec make_step_spec(const LayerGraph& model, const TrainingSpec* training,
                                      StepMode mode, const Dataset& data, std::int64_t rows,
                                      std::uint64_t seed, const std::string& where);

/// The same for samples that are stored as the model takes them: integers for integer inputs,
/// float32 (float64 under that policy) for others, int32 labels. Throws std::invalid_argument
/// "[where] …" if an input has unknown extents besides the batch.
[[nodiscard]] StepSpec make_step_spec(const LayerGraph& model, const TrainingSpec* training,
                                      StepMode mode, std::int64_t rows, const std::string& where);

/// Whether a program compiled for one serves the other.
[[nodiscard]] bool same_step(const StepSpec& a, const StepSpec& b);

/// Checks the values: labels of the losses that take class indices are in range, and, unless
/// `allow_non_finite`, there is no NaN and no infinity. Throws std::invalid_argument "[where] …".
void check_values(const LayerGraph& model, const TrainingSpec* training, const Dataset& data,
                  bool allow_non_finite, const std::string& where);

}  // namespace demi::internal
