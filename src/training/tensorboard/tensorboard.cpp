#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <demi/callbacks/tensorboard.h>
#include <demi/model.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/io/atomic_file.h"
#include "src/io/event_writer.h"
#include "src/runtime/memory_stats.h"
#include "src/training/memory/describe_memory.h"
#include "src/training/model_impl.h"
#include "src/training/precision/observed_step.h"
#include "src/training/run_description.h"
#include "src/training/tensorboard/graph_def.h"
#include "src/training/tensorboard/histograms.h"
#include "src/training/tensorboard/step_trace.h"
#include "src/training/trainer.h"

namespace demi {

using internal::ObservedStep;

/// The logging of one fit.
class TensorBoard::Run {
 public:
  Run(const TensorBoardOptions& options, const TrainingControl& control);

  void begin();
  void begin_batch();
  void end_batch(std::int64_t batch);
  void begin_epoch() { restart_interval(); }
  void end_epoch(int epoch, const Logs& logs);
  void end(bool succeeded);

  /// Calls `write` unless logging has stopped; stops it if that throws.
  template <class Write>
  void attempt(Write&& write);
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Sum {
    double total = 0;
    double weight = 0;
  };

  [[nodiscard]] std::vector<Sum> sums() const;
  void restart_interval();
  void write_description();
  void write_memory(const plan::Plan& plan);
  void write_first_step(const plan::Plan& plan);
  void write_interval(std::int64_t batch);
  void look_at_gradients();
  void write_update_ratios();
  void write_histograms(int epoch);
  void ask_for_profile();

  const TensorBoardOptions& options_;
  const TrainingControl& control_;
  Trainer& trainer_;
  std::vector<Variable> variables_;  ///< trainable
  io::EventWriter train_;
  std::optional<io::EventWriter> validation_;
  std::string error_;

  std::int64_t steps_ = 0;  ///< begun in this fit
  std::int64_t step_ = 0;   ///< begun over the life of the model: the x axis
  std::vector<Sum> seen_;   ///< at the last point of the curves by step
  Clock::time_point seen_at_;
  std::int64_t seen_batches_ = 0;  ///< in this epoch
  std::int64_t batches_ = 0;       ///< in this epoch
  std::unique_ptr<ObservedStep> observed_;
  std::vector<Tensor> gradients_;       ///< of the last look
  std::vector<Tensor> weights_before_;  ///< of the step that is looked at; else empty
};

TensorBoard::Run::Run(const TensorBoardOptions& options, const TrainingControl& control)
    : options_(options),
      control_(control),
      trainer_(*control.model->impl().trainer),
      variables_(control.model->trainable_variables()),
      train_(options.log_dir / "train") {
  const Dataset* validation = control.validation_data;
  if (validation != nullptr && validation->input_count() > 0) {
    validation_.emplace(options.log_dir / "validation");
  }
}

template <class Write>
void TensorBoard::Run::attempt(Write&& write) {
  if (!error_.empty()) return;
  try {
    write();
  } catch (const std::exception& error) {
    error_ = error.what();
    weights_before_.clear();
    std::cerr << fmt::format("[tensorboard] logging stops at step {}, training goes on: {}\n",
                             step_, error_);
  }
}

void TensorBoard::Run::begin() {
  step_ = control_.status().step;
  write_description();
  train_.flush();
  if (validation_) validation_->flush();
}

void TensorBoard::Run::write_description() {
  const Config run = internal::describe_run(control_);
  train_.text("configuration", 0, "```json\n" + run.to_json(2) + "\n```");
  const Optimizer& optimizer = *trainer_.training()->optimizer;
  std::vector<io::HyperParameter> parameters = {
      {"optimizer", optimizer.class_name()},
      {"learning_rate", optimizer.learning_rate()},
      {"batch_size", static_cast<double>(control_.parameters.batch_size)},
      {"policy", run.at("policy").as_string()},
      {"device", trainer_.device()}};
  for (const auto& [name, value] : options_.hparams) parameters.emplace_back(name, value);
  train_.session_start(options_.log_dir.filename().string(), parameters);
}

void TensorBoard::Run::begin_batch() {
  ++steps_;
  const plan::Plan& plan = trainer_.batch.program->plan();
  if (steps_ == 1) write_first_step(plan);
  const bool looks = options_.gradient_freq > 0 && (steps_ - 1) % options_.gradient_freq == 0;
  // The last batch of an epoch may have too few samples; the next whole one will do.
  if (looks) look_at_gradients();
  if (steps_ == options_.profile_step) ask_for_profile();
  ++step_;
}

void TensorBoard::Run::write_first_step(const plan::Plan& plan) {
  if (options_.write_graph) train_.graph(internal::graph_def_of(plan, trainer_.device()));
  write_memory(plan);
  train_.flush();
}

void TensorBoard::Run::write_memory(const plan::Plan& plan) {
  const PlannedBytes bytes =
      internal::planned_bytes(trainer_.model(), plan, trainer_.training()->optimizer.get());
  const std::pair<const char*, std::size_t> categories[] = {
      {"activations", bytes.activations},
      {"weights", bytes.weights},
      {"compute_copies", bytes.compute_copies},
      {"gradients", bytes.gradients},
      {"optimizer", bytes.optimizer},
      {"temporaries", bytes.temporaries},
      {"workspace", bytes.workspace},
      {"input_buffers", bytes.input_buffers},
      {"total", bytes.total}};
  for (const auto& [name, value] : categories) {
    train_.scalar(fmt::format("memory/{}_MB", name), step_, static_cast<double>(value) / 1e6);
  }
}

void TensorBoard::Run::look_at_gradients() {
  const std::int64_t rows = trainer_.batch.program->spec().inputs[0].type.shape[0];
  if (!observed_) {
    observed_ = std::make_unique<ObservedStep>(trainer_, Precision::kAsTrained);
  }
  if (rows < observed_->rows()) return;
  observed_->run();
  double squares = 0;
  gradients_.clear();
  for (std::size_t i = 0; i < observed_->gradient_names().size(); ++i) {
    gradients_.push_back(observed_->gradient(i));
    const double norm = internal::norm_of(gradients_.back());
    squares += norm * norm;
  }
  train_.scalar("gradients/global_norm", step_ + 1, std::sqrt(squares));
  for (const Variable& variable : variables_) weights_before_.push_back(variable.value());
}

void TensorBoard::Run::ask_for_profile() {
  // Set now and called within this step, by the trainer that this refers to.
  trainer_.profile = [this](const plan::Plan& plan, const std::vector<runtime::StepTime>& times) {
    attempt([&] {
      io::write_file(options_.log_dir / fmt::format("step_{}.trace.json", step_),
                     internal::step_trace(plan, times, trainer_.device()));
    });
  };
}

void TensorBoard::Run::end_batch(std::int64_t batch) {
  ++batches_;
  if (!weights_before_.empty()) write_update_ratios();
  const std::int64_t every = options_.update_freq;
  if (every > 0 && steps_ % every == 0) write_interval(batch);
}

void TensorBoard::Run::write_update_ratios() {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    Tensor change = variables_[i].value().to(DType::kFloat64);
    const Tensor before = weights_before_[i].to(DType::kFloat64);
    for (std::int64_t j = 0; j < change.elements(); ++j) {
      const auto at = static_cast<std::size_t>(j);
      change.data<double>()[at] -= before.data<double>()[at];
    }
    const double norm = internal::norm_of(before);
    if (norm == 0) continue;
    train_.scalar("update_ratio/" + variables_[i].name(), step_, internal::norm_of(change) / norm);
  }
  weights_before_.clear();
  train_.flush();
}

std::vector<TensorBoard::Run::Sum> TensorBoard::Run::sums() const {
  std::vector<Sum> sums;
  for (const Accumulator& accumulator : trainer_.state().train) {
    sums.push_back({accumulator.total.value().item(), accumulator.weight.value().item()});
  }
  return sums;
}

void TensorBoard::Run::restart_interval() {
  batches_ = seen_batches_ = 0;
  seen_.clear();
  seen_at_ = Clock::now();
}

void TensorBoard::Run::write_interval(std::int64_t batch) {
  const std::vector<Sum> now = sums();
  seen_.resize(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double weight = now[i].weight - seen_[i].weight;
    if (weight <= 0) continue;
    train_.scalar("step/" + trainer_.state().train[i].name, step_,
                  (now[i].total - seen_[i].total) / weight);
  }
  const TrainingParameters& fit = control_.parameters;
  const std::int64_t last = std::min(fit.samples, (batch + 1) * fit.batch_size);
  const std::int64_t first = last - (batches_ - seen_batches_) * fit.batch_size;
  const double seconds = std::chrono::duration<double>(Clock::now() - seen_at_).count();
  train_.scalar("step/images_per_second", step_, static_cast<double>(last - first) / seconds);
  train_.scalar("step/learning_rate", step_, trainer_.training()->optimizer->learning_rate());
  if (trainer_.loss_scaler() != nullptr) {
    const TrainingStatus status = control_.status();
    train_.scalar("precision/loss_scale", step_, status.loss_scale);
    train_.scalar("precision/skipped_steps", step_, static_cast<double>(status.skipped_steps));
  }
  train_.flush();
  seen_ = now;
  seen_batches_ = batches_;
  seen_at_ = Clock::now();
}

void TensorBoard::Run::end_epoch(int epoch, const Logs& logs) {
  for (const auto& [name, value] : logs) {
    const bool is_validation = name.starts_with("val_");
    if (is_validation && validation_) {
      validation_->scalar("epoch_" + name.substr(4), epoch, value);
    } else {
      train_.scalar("epoch_" + name, epoch, value);
    }
  }
  if (logs.find("learning_rate") == nullptr) {
    train_.scalar("epoch_learning_rate", epoch, trainer_.training()->optimizer->learning_rate());
  }
  const MemoryRecord memory{.stage = "epoch",
                            .epoch = epoch,
                            .stats = runtime::memory_stats(trainer_.arena()->backend())};
  for (const auto& [name, bytes] : memory.scalars()) {
    train_.scalar(name + "_MB", step_, bytes / 1e6);
  }
  if (options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0) write_histograms(epoch);
  train_.flush();
  if (validation_) validation_->flush();
}

/// Weights as they are; gradients of the last look, which is not far back.
void TensorBoard::Run::write_histograms(int epoch) {
  for (const Variable& variable : variables_) {
    train_.histogram("weights/" + variable.name(), epoch,
                     internal::value_histogram(variable.value()));
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const std::string& name = observed_->gradient_names()[i];
    train_.histogram("gradients/" + name, epoch, internal::value_histogram(gradients_[i]));
    train_.histogram("gradient_exponents/" + name, epoch,
                     internal::exponent_histogram(internal::range_of(gradients_[i])));
  }
}

void TensorBoard::Run::end(bool succeeded) {
  attempt([&] {
    train_.session_end(succeeded);
    train_.flush();
  });
  observed_.reset();
  gradients_.clear();
  if (error_.empty()) return;
  std::cerr << fmt::format("[tensorboard] {} has no events of the end of this run: {}\n",
                           train_.path().string(), error_);
}

TensorBoard::TensorBoard(TensorBoardOptions options) : options_(std::move(options)) {
  if (options_.log_dir.empty()) {
    internal::fail_argument("tensorboard", "expected a log_dir. Received: none.");
  }
  const std::pair<const char*, std::int64_t> counts[] = {
      {"update_freq", options_.update_freq},
      {"gradient_freq", options_.gradient_freq},
      {"histogram_freq", options_.histogram_freq},
      {"profile_step", options_.profile_step}};
  for (const auto& [name, value] : counts) {
    if (value >= 0) continue;
    internal::fail_argument("tensorboard",
                            fmt::format("expected {} >= 0. Received: {}.", name, value));
  }
}

void TensorBoard::on_train_begin() {
  run_.reset();
  run_ = std::make_shared<Run>(options_, control());
  run_->begin();
}

void TensorBoard::on_train_batch_begin(std::int64_t /*batch*/) {
  run_->attempt([&] { run_->begin_batch(); });
}

void TensorBoard::on_train_batch_end(std::int64_t batch, const BatchLogs& /*logs*/) {
  run_->attempt([&] { run_->end_batch(batch); });
}

void TensorBoard::on_epoch_begin(int /*epoch*/) {
  run_->begin_epoch();
}

void TensorBoard::on_epoch_end(int epoch, Logs& logs) {
  run_->attempt([&] { run_->end_epoch(epoch, logs); });
}

void TensorBoard::on_train_end(const Logs& /*logs*/) {
  run_->end(true);
}

void TensorBoard::on_train_failed(const std::exception& /*error*/) {
  // Null if this is what has thrown.
  if (run_) run_->end(false);
}

const std::string& TensorBoard::error() const {
  static const std::string kNone;
  return run_ ? run_->error() : kNone;
}

}  // namespace demi
