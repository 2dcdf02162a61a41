// When training cannot go on: the error that says where the first non-finite value comes from.
#pragma once

#include <optional>
#include <string>

#include "src/training/precision/layer_ranges.h"
#include "src/training/trainer.h"

namespace demi::internal {

/// Where `found` arose, and what to do about it: whether float32 is not finite there either,
/// float16 overflowed on the way forward, which no loss scale heals, or on the way back. `ranges`
/// are those of the same batch. For nullopt: that all is finite now.
[[nodiscard]] std::string describe_cause(const std::optional<runtime::NonFinite>& found,
                                         const LayerRanges& ranges);

/// Throws TrainingDiverged "[where] what", followed by the layer, op and direction (forward or
/// backward) in which a NaN or an infinity first arises on the batch that the trainer is at, and
/// the history of skips and ranges.
[[noreturn]] void throw_diverged(Trainer& trainer, const std::string& where,
                                 const std::string& what);

/// To be called after a step on the batch that the trainer is at: notes whether it was skipped, and
/// throws TrainingDiverged if as many steps in a row have been skipped as the optimizer's
/// max_consecutive_skips allows. Does nothing without loss scaling.
void check_skips(Trainer& trainer, const std::string& where);

}  // namespace demi::internal
