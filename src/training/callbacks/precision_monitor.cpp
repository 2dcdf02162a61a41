#include <demi/callbacks/precision_monitor.h>

#include <iostream>
#include <optional>
#include <utility>

#include <demi/error.h>
#include <demi/model.h>
#include <demi/optimizers/loss_scale_optimizer.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/training/divergence.h"
#include "src/training/model_impl.h"
#include "src/training/precision/precision_report.h"
#include "src/training/trainer.h"

namespace demi {

/// What the looks of one fit have gathered.
struct PrecisionMonitor::State {
  Trainer* trainer = nullptr;  ///< null once fit is over
  std::unique_ptr<internal::ObservedStep> step;
  std::unique_ptr<internal::ObservedStep> whole_step;  ///< of all samples, for diagnoses
  internal::LayerRanges ranges;
  std::int64_t begun = 0;  ///< steps of this fit
  std::int64_t looks = 0;
  std::int64_t last_step = 0;
  std::int64_t last_skip = -1;
  double loss_scale = LossScaleOptions().initial_scale;
  bool lacks_memory = false;

  internal::LayerRanges look(std::unique_ptr<internal::ObservedStep>& observed,
                             std::int64_t samples, std::int64_t step_number);
  internal::LayerRanges ranges_of_batch(std::unique_ptr<internal::ObservedStep>& observed,
                                        std::int64_t samples);
};

/// What the next or last step computes on the first `samples` of its batch; 0: on all of it.
internal::LayerRanges PrecisionMonitor::State::ranges_of_batch(
    std::unique_ptr<internal::ObservedStep>& observed, std::int64_t samples) {
  const std::int64_t rows = trainer->batch.program->spec().inputs[0].type.shape[0];
  // The last batch of an epoch may have fewer samples.
  const bool fits = observed && (samples > 0 ? observed->rows() <= rows : observed->rows() == rows);
  if (!fits) {
    observed = std::make_unique<internal::ObservedStep>(*trainer, Precision::kFloat32, samples);
  }
  return internal::look_at_ranges(*observed);
}

/// Adds what the batch computes. Nothing if the device lacks the memory: training needs it more.
internal::LayerRanges PrecisionMonitor::State::look(
    std::unique_ptr<internal::ObservedStep>& observed, std::int64_t samples,
    std::int64_t step_number) {
  if (lacks_memory) return {};
  if (const LossScaleOptimizer* scaler = trainer->loss_scaler()) loss_scale = scaler->scale();
  internal::LayerRanges seen;
  try {
    seen = ranges_of_batch(observed, samples);
  } catch (const OutOfMemory& error) {
    lacks_memory = true;
    step.reset();
    whole_step.reset();
    std::cerr << "[precision_monitor] looks no more from step " << step_number
              << " on, training goes on: " << error.what() << '\n';
    return {};
  }
  trainer->add_range_sample(internal::summarize_ranges(seen, step_number, loss_scale));
  internal::add_ranges(ranges, seen);
  last_step = step_number;
  ++looks;
  return seen;
}

PrecisionMonitor::PrecisionMonitor(PrecisionMonitorOptions options) : options_(options) {
  if (options_.every_steps < 1 || options_.samples < 0) {
    internal::fail_argument(
        "precision_monitor",
        fmt::format("expected every_steps >= 1 and samples >= 0. Received: {} and {}.",
                    options_.every_steps, options_.samples));
  }
}

void PrecisionMonitor::on_train_begin() {
  state_ = std::make_shared<State>();
  state_->trainer = model().impl().trainer.get();
  diagnoses_.clear();
}

void PrecisionMonitor::on_train_batch_begin(std::int64_t /*batch*/) {
  if (state_->begun++ % options_.every_steps != 0) return;
  (void)state_->look(state_->step, options_.samples, status().step + 1);
}

void PrecisionMonitor::on_step_skipped(std::int64_t step, double scale) {
  // Of a series of skips the first tells what is wrong.
  const bool is_first = state_->last_skip < 0 || step > state_->last_skip + 1;
  state_->last_skip = step;
  if (is_first) {
    diagnose(step, fmt::format("skipped, the loss scale is now {:g}", scale));
  }
}

bool PrecisionMonitor::on_non_finite_loss(std::int64_t step) {
  diagnose(step, "the loss is not finite");
  return false;
}

void PrecisionMonitor::diagnose(std::int64_t step, const std::string& what) {
  const auto [program, buffer] = state_->trainer->batch;
  const std::optional<runtime::NonFinite> found = program->first_non_finite(buffer);
  const internal::LayerRanges ranges = state_->look(state_->whole_step, 0, step);
  diagnoses_.push_back(
      fmt::format("step {}: {}. {}", step, what, internal::describe_cause(found, ranges)));
  if (options_.verbose) std::cerr << "[precision_monitor] " << diagnoses_.back() << '\n';
}

void PrecisionMonitor::on_train_end(const Logs& /*logs*/) {
  state_->trainer = nullptr;
  state_->step.reset();
  state_->whole_step.reset();
  if (options_.verbose) std::cout << to_string(report());
}

void PrecisionMonitor::on_train_failed(const std::exception& /*error*/) {
  if (!state_) return;
  state_->trainer = nullptr;
  state_->step.reset();
  state_->whole_step.reset();
  if (options_.verbose) std::cerr << to_string(report());
}

PrecisionReport PrecisionMonitor::report() const {
  if (!state_) return {};
  return internal::make_report(state_->ranges, state_->looks, state_->last_step,
                               state_->loss_scale);
}

}  // namespace demi
