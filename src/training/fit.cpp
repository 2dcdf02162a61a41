#include "src/training/fit.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <demi/initializers.h>
#include <demi/optimizers/loss_scale_optimizer.h>

#include "src/core/check.h"
#include "src/training/dataset/sample_order.h"
#include "src/training/dataset/validate.h"
#include "src/training/divergence.h"
#include "src/training/pass.h"
#include "src/training/progress_bar.h"
#include "src/training/step_specs.h"

namespace demi::internal {
namespace {

/// Steps between two looks at a device that works while the host goes on.
constexpr std::int64_t kLogInterval = 16;

void check_options(const FitOptions& options) {
  const auto check_at_least = [](auto value, int least, const char* name) {
    if (value < least) {
      fail_argument("fit", fmt::format("expected {} >= {}. Received: {}.", name, least, value));
    }
  };
  check_at_least(options.epochs, 0, "epochs");
  check_at_least(options.initial_epoch, 0, "initial_epoch");
  check_at_least(options.steps_per_epoch, 0, "steps_per_epoch");
  check_at_least(options.max_steps, 0, "max_steps");
  check_at_least(options.validation_batch_size, 0, "validation_batch_size");
  if (!(options.validation_split >= 0 && options.validation_split < 1)) {
    fail_argument("fit", fmt::format("expected validation_split in [0, 1). Received: {}.",
                                     options.validation_split));
  }
}

/// {training data, validation data}; the second is without arrays if there is none.
std::pair<Dataset, Dataset> divide(const Dataset& data, const FitOptions& options) {
  check_not_empty(data, "fit");
  if (options.validation_data.input_count() > 0) {
    check_not_empty(options.validation_data, "fit, validation_data");
    return {data, options.validation_data};
  }
  if (options.validation_split == 0) return {data, Dataset()};
  auto [train, validation] = data.split(options.validation_split);
  if (train.empty() || validation.empty()) {
    fail_argument("fit", fmt::format("expected enough samples for a validation_split of {}. "
                                     "Received: {}.",
                                     options.validation_split, data.size()));
  }
  return {train, validation};
}

/// `trainer`, after it has copied the data to its device, if it does so.
Trainer& on_device(Trainer& trainer, const std::pair<Dataset, Dataset>& data) {
  trainer.keep_on_device(data.first, data.second, "fit");
  return trainer;
}

/// One call of fit.
class FitRun {
 public:
  FitRun(Model model, Trainer& trainer, const Dataset& data, const FitOptions& options);
  History run();

 private:
  void run_epoch(int epoch, std::int64_t first_step);
  void after_step(const Batch& batch);
  void look_at_device();
  void note_skips(const TrainingStatus& now);
  void look_without_waiting();
  void end_epoch(int epoch);
  void validate(Logs& logs);
  /// Of the epoch so far; on a device that works while the host goes on, as of the last look.
  [[nodiscard]] Logs latest_logs() const;
  [[nodiscard]] ProgressStatus progress_status() const;

  Trainer& trainer_;
  const FitOptions& options_;
  Model model_;
  std::pair<Dataset, Dataset> data_;  ///< training, validation
  Pass training_;
  std::optional<Pass> validation_;
  std::uint64_t seed_;
  TrainingControl control_;
  CallbackList callbacks_;
  ProgressBar progress_;
  History history_;
  Logs logs_;  ///< of the last epoch

  std::int64_t steps_done_ = 0;       ///< in this call
  bool was_cut_ = false;              ///< by max_steps
  TrainingStatus seen_;               ///< at the last look
  std::int64_t seen_non_finite_ = 0;  ///< non-finite losses of this epoch at the last look
  Logs seen_logs_;                    ///< of this epoch at the last look; empty before it
  bool readback_is_under_way_ = false;
};

FitRun::FitRun(Model model, Trainer& trainer, const Dataset& data, const FitOptions& options)
    : trainer_(trainer),
      options_(options),
      model_(std::move(model)),
      data_(divide(data, options)),
      training_(on_device(trainer, data_), StepMode::kTrain, data_.first, options.batch_size,
                options.steps_per_epoch, "fit", DataPlace::kDevice),
      seed_(options.resume ? options.resume->seed : options.seed.value_or(random_seed())),
      control_{.model = &model_,
               .parameters = {.epochs = options.epochs,
                              .batch_size = options.batch_size,
                              .samples = training_.samples(),
                              .steps_per_epoch = training_.steps(),
                              .shuffle = options.shuffle,
                              .seed = seed_,
                              .verbose = options.verbose},
               .status = [this] { return trainer_.status(); },
               .training_data = &data_.first,
               .validation_data = &data_.second},
      callbacks_(options.callbacks, &control_),
      progress_(std::cout, style_of_stdout(options.verbose)) {
  const TrainingSpec* spec = trainer.training();
  check_values(trainer.model(), spec, data_.first, options.allow_non_finite, "fit");
  if (data_.second.input_count() > 0) {
    const std::int64_t batch_size =
        options.validation_batch_size > 0 ? options.validation_batch_size : options.batch_size;
    validation_.emplace(trainer, StepMode::kEvaluate, data_.second, batch_size, 0,
                        "fit, validation data", DataPlace::kDevice);
    check_values(trainer.model(), spec, data_.second, options.allow_non_finite,
                 "fit, validation data");
  }
}

History FitRun::run() {
  const int first_epoch = options_.resume ? options_.resume->epoch : options_.initial_epoch;
  std::int64_t first_step = options_.resume ? options_.resume->batch : 0;
  if (first_step < 0 || first_step >= training_.steps()) {
    fail_argument("fit", fmt::format("expected to resume at a batch in [0, {}). Received: {}.",
                                     training_.steps(), first_step));
  }
  trainer_.position = {first_epoch, first_step, seed_};
  seen_ = trainer_.status();
  try {
    callbacks_.train_begin();
    for (int epoch = first_epoch; epoch < options_.epochs && !control_.stop; ++epoch) {
      run_epoch(epoch, first_step);
      first_step = 0;
    }
  } catch (const std::exception& error) {
    trainer_.leave_batch();
    callbacks_.train_failed(error);
    throw;
  }
  trainer_.leave_batch();
  // A run that is cut by max_steps is to be continued, with the weights as they are.
  if (!was_cut_) trainer_.training()->optimizer->finalize_variable_values();
  callbacks_.train_end(logs_);
  history_.status = trainer_.status();
  return std::move(history_);
}

void FitRun::run_epoch(int epoch, std::int64_t first_step) {
  callbacks_.epoch_begin(epoch);
  progress_.begin(fmt::format("Epoch {}/{}", epoch + 1, options_.epochs), training_.steps(),
                  first_step);
  // An epoch that is resumed goes on with the sums of its first part.
  if (first_step == 0) trainer_.reset_train();
  seen_non_finite_ = trainer_.non_finite_losses();
  seen_logs_ = Logs();
  // The sums were read or reset just now, which waited for a copy that was still under way.
  readback_is_under_way_ = false;
  std::vector<std::int64_t> order;
  if (options_.shuffle) {
    order = shuffled_order(data_.first.size(), seed_, static_cast<std::uint64_t>(epoch));
  }
  const std::unique_ptr<BatchLoader> loader = training_.load(std::move(order), first_step);
  while (!control_.stop) {
    const std::optional<Batch> batch = loader->next();
    if (!batch) break;
    trainer_.batch = {&training_.program(*batch), batch->buffer};
    callbacks_.train_batch_begin(batch->index);
    trainer_.run_batch();
    const bool is_last = batch->index + 1 == training_.steps();
    trainer_.position = {is_last ? epoch + 1 : epoch, is_last ? 0 : batch->index + 1, seed_};
    after_step(*batch);
  }
  end_epoch(epoch);
}

void FitRun::after_step(const Batch& batch) {
  ++steps_done_;
  const bool is_last = batch.index + 1 == training_.steps();
  if (trainer_.is_synchronous() || is_last) {
    look_at_device();
  } else {
    look_without_waiting();
  }
  callbacks_.train_batch_end(batch.index, BatchLogs([this] { return trainer_.train_logs(); }));
  if (progress_.advance(batch.rows)) progress_.draw(latest_logs(), progress_status());
  if (options_.max_steps > 0 && steps_done_ >= options_.max_steps) {
    control_.stop = was_cut_ = true;
  }
}

/// A line for each series of skipped steps, when it begins.
void FitRun::note_skips(const TrainingStatus& now) {
  const LossScaleOptimizer* scaler = trainer_.loss_scaler();
  const std::int64_t skipped = now.skipped_steps - seen_.skipped_steps;
  if (scaler == nullptr || skipped == 0 || scaler->consecutive_skips() > skipped) return;
  progress_.note(
      fmt::format("Step {}: skipped, loss or gradients are not finite; the loss scale is "
                  "now {:g}",
                  now.step, now.loss_scale));
}

/// Looks at the step state as it was some steps ago, when a copy of it was sent for.
void FitRun::look_without_waiting() {
  runtime::StateBlock& state = trainer_.state_block();
  if (readback_is_under_way_ && state.readback_is_ready()) {
    readback_is_under_way_ = false;
    const runtime::SnapshotScope snapshot(state);
    look_at_device();
    seen_logs_ = trainer_.train_logs();
  }
  if (!readback_is_under_way_ && steps_done_ % kLogInterval == 0) {
    state.start_readback();
    readback_is_under_way_ = true;
  }
}

Logs FitRun::latest_logs() const {
  return trainer_.is_synchronous() ? trainer_.train_logs() : seen_logs_;
}

void FitRun::look_at_device() {
  const TrainingStatus now = trainer_.status();
  note_skips(now);
  for (std::int64_t skipped = seen_.skipped_steps; skipped < now.skipped_steps; ++skipped) {
    callbacks_.step_skipped(now.step, now.loss_scale);
  }
  const std::int64_t non_finite = trainer_.non_finite_losses();
  const bool loss_became_non_finite = non_finite > seen_non_finite_;
  seen_ = now;
  seen_non_finite_ = non_finite;

  if (trainer_.loss_scaler() != nullptr) {
    if (options_.allow_non_finite) return;
    check_skips(trainer_, "fit");
  } else if (loss_became_non_finite) {
    if (callbacks_.non_finite_loss(now.step) || options_.allow_non_finite) return;
    throw_diverged(
        trainer_, "fit",
        fmt::format("expected a finite loss. Received: NaN or infinity at step {}.", now.step));
  }
}

void FitRun::end_epoch(int epoch) {
  logs_ = trainer_.train_logs();
  if (validation_) validate(logs_);
  progress_.end(logs_, progress_status());
  if (trainer_.loss_scaler() != nullptr) {
    logs_.set("loss_scale", seen_.loss_scale);
    logs_.set("skipped_steps", static_cast<double>(seen_.skipped_steps));
  }
  callbacks_.epoch_end(epoch, logs_);
  history_.add(epoch, logs_);
}

void FitRun::validate(Logs& logs) {
  callbacks_.test_begin();
  trainer_.reset_evaluate();
  const std::unique_ptr<BatchLoader> loader = validation_->load();
  while (const auto batch = loader->next()) validation_->program(*batch).run(batch->buffer);
  const Logs results = trainer_.evaluate_logs();
  callbacks_.test_end(results);
  for (const auto& [name, value] : results) logs.set("val_" + name, value);
}

ProgressStatus FitRun::progress_status() const {
  if (trainer_.loss_scaler() == nullptr) return {};
  return {.shows_loss_scale = true,
          .loss_scale = seen_.loss_scale,
          .skipped_steps = seen_.skipped_steps};
}

}  // namespace

History fit(Model model, Trainer& trainer, const Dataset& data, const FitOptions& options) {
  (void)trainer.require_training("fit");
  check_options(options);
  return FitRun(std::move(model), trainer, data, options).run();
}

}  // namespace demi::internal
