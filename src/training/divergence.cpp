#include "src/training/divergence.h"

#include <optional>

#include <fmt/format.h>

#include <demi/error.h>
#include <demi/optimizers/loss_scale_optimizer.h>

#include "src/training/precision/observed_step.h"

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

const LayerRange* find_layer(const LayerRanges& ranges, const std::string& layer) {
  for (const LayerRange& range : ranges) {
    if (range.layer == layer) return &range;
  }
  return nullptr;
}

std::string advise(const ValueRange& range, bool is_forward) {
  if (range.nans + range.infinities > 0) {
    return " Float32 is not finite there either: it is not a matter of float16.";
  }
  if (!is_forward) {
    return fmt::format(
        " It is an overflow on the way back: in float32, and without loss scale, |gradient| there "
        "is "
        "up to {:.3g}. A smaller loss scale heals it.",
        range.max_abs);
  }
  if (range.overflow_share() == 0) return "";
  return fmt::format(
      " It is an overflow on the way forward: in float32 |activation| there is up to {:.3g}, "
      "beyond "
      "float16 in {:.3g} % of the values. No loss scale heals it: keep the layer in float32.",
      range.max_abs, range.overflow_share() * 100);
}

/// The ranges of the batch that the trainer is at; none if looking at them fails, since there is an
/// error to be reported already.
LayerRanges ranges_now(Trainer& trainer) {
  try {
    ObservedStep step(trainer, Precision::kFloat32);
    return look_at_ranges(step);
  } catch (const std::exception&) {
    return {};
  }
}

std::string history_of(const Trainer& trainer) {
  std::string text;
  if (!trainer.skips().empty()) text += "\nSkipped steps, and the loss scale after each:";
  for (const SkippedStep& skip : trainer.skips()) {
    text += fmt::format(" {}: {:g}", skip.step, skip.loss_scale);
  }
  if (!trainer.range_samples().empty()) text += "\nRanges in float32:";
  for (const RangeSample& sample : trainer.range_samples()) text += "\n  " + to_string(sample);
  return text;
}

}  // namespace

std::string describe_cause(const std::optional<runtime::NonFinite>& found,
                           const LayerRanges& ranges) {
  if (!found) return "On the last batch all values are finite now.";
  const bool is_forward = found->phase == ir::Phase::kForward;
  const LayerRange* range = find_layer(ranges, found->layer);
  if (range == nullptr) return describe(*found);
  return describe(*found) + advise(is_forward ? range->activation : range->gradient, is_forward);
}

void throw_diverged(Trainer& trainer, const std::string& where, const std::string& what) {
  const auto [program, buffer] = trainer.batch;
  const std::optional<runtime::NonFinite> found = program->first_non_finite(buffer);
  const LayerRanges ranges = ranges_now(trainer);
  const TrainingStatus status = trainer.status();
  if (!ranges.empty()) {
    trainer.add_range_sample(summarize_ranges(ranges, status.step, status.loss_scale));
  }
  throw TrainingDiverged(
      fmt::format("[{}] {} {}{}", where, what, describe_cause(found, ranges), history_of(trainer)));
}

void check_skips(Trainer& trainer, const std::string& where) {
  const LossScaleOptimizer* scaler = trainer.loss_scaler();
  if (scaler == nullptr || scaler->consecutive_skips() == 0) return;
  trainer.add_skip({.step = trainer.status().step, .loss_scale = scaler->scale()});
  if (scaler->consecutive_skips() < scaler->max_consecutive_skips()) return;
  throw_diverged(
      trainer, where,
      fmt::format("expected finite gradients in one of {} steps. Received: {} skipped "
                  "steps in a row, with the loss scale down to {:g}.",
                  scaler->max_consecutive_skips(), scaler->consecutive_skips(), scaler->scale()));
}

}  // namespace demi::internal
