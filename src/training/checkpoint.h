// Training checkpoints: everything that the next step depends on, in one safetensors file.
//
// Tensors: "model/<variable>", "optimizer/<index>" in the optimizer's order, "state/steps", and
// "epoch/<name>/total", "…/weight", "…/non_finite" for the sums of a half-done epoch; each in the
// dtype in which it is kept. Metadata: "format" ("demi.checkpoint"), "version", "optimizer" (its
// class), "position" and "seed" as JSON.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <demi/training.h>
#include <demi/variable.h>

#include "src/training/trainer.h"

namespace demi::internal {

using NamedVariables = std::vector<std::pair<std::string, Variable>>;

/// The file appears complete or not at all. Throws std::runtime_error if it cannot be written.
void save_checkpoint(const std::filesystem::path& path, const NamedVariables& weights,
                     const Trainer& trainer);

/// Puts the state back; training from there gives the same bits as if it had not been interrupted.
/// Throws std::runtime_error if the file cannot be read, and std::invalid_argument, changing
/// nothing, if it is not a checkpoint of such a model and optimizer.
void load_checkpoint(const std::filesystem::path& path, const NamedVariables& weights,
                     Trainer& trainer);

}  // namespace demi::internal
