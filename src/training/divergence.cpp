#include "src/training/divergence.h"

#include <optional>

#include <fmt/format.h>

#include <demi/error.h>
#include <demi/optimizers/loss_scale_optimizer.h>

namespace demi::internal {
namespace {

std::string place_of(const runtime::NonFinite& found) {
  if (!found.layer.empty()) return "layer '" + found.layer + "'";
  return found.input.empty() ? "the loss" : "input '" + found.input + "'";
}

std::string describe(const runtime::NonFinite& found) {
  const std::string reads = found.variable.empty()
                                ? ""
                                : ", which reads the non-finite variable '" + found.variable + "'";
  return fmt::format("{} first arises in {} ({}, {} pass{}).", found.is_nan ? "NaN" : "An infinity",
                     place_of(found), found.op, ir::to_string(found.phase), reads);
}

}  // namespace

void throw_diverged(Program& program, int buffer, const std::string& where,
                    const std::string& what) {
  const std::optional<runtime::NonFinite> found = program.first_non_finite(buffer);
  throw TrainingDiverged(
      fmt::format("[{}] {} {}", where, what,
                  found ? describe(*found) : "On the last batch all values are finite now."));
}

void check_skips(const Trainer& trainer, Program& program, int buffer, const std::string& where) {
  const LossScaleOptimizer* scaler = trainer.loss_scaler();
  if (scaler == nullptr || scaler->consecutive_skips() < scaler->max_consecutive_skips()) return;
  throw_diverged(
      program, buffer, where,
      fmt::format("expected finite gradients in one of {} steps. Received: {} skipped "
                  "steps in a row, with the loss scale down to {:g}.",
                  scaler->max_consecutive_skips(), scaler->consecutive_skips(), scaler->scale()));
}

}  // namespace demi::internal
