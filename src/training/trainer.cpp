#include "src/training/trainer.h"

#include <algorithm>
#include <set>
#include <utility>

#include <demi/initializers.h>
#include <demi/optimizers/loss_scale_optimizer.h>

#include "kernels/backend.h"
#include "src/core/check.h"
#include "src/layers/layer_state.h"
#include "src/training/memory/limits.h"
#include "src/training/memory/recompute_step.h"
#include "src/training/step_specs.h"

namespace demi {
namespace {

/// Compiled steps that are kept; more are needed only by callers whose batch size keeps changing.
constexpr std::size_t kMaxPrograms = 16;

/// Entries that histories of skips and ranges keep.
constexpr std::size_t kHistory = 64;

template <class T>
void append(std::vector<T>& history, T entry) {
  if (history.size() == kHistory) history.erase(history.begin());
  history.push_back(std::move(entry));
}

/// The names under which outputs are reported; a layer that makes several is counted.
std::vector<std::string> output_names(const LayerGraph& model) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const LayerGraph::Output& output : model.outputs) {
    std::string name = output.name;
    for (int i = 1; !taken.insert(name).second; ++i) name = output.name + "_" + std::to_string(i);
    names.push_back(name);
  }
  return names;
}

std::vector<ReportedMetric> report_metrics(const LayerGraph& model,
                                           const std::vector<MetricSpec>& metrics) {
  const std::vector<std::string> names = output_names(model);
  const auto count = static_cast<int>(names.size());
  std::vector<ReportedMetric> result;
  std::set<std::string> taken = {"loss"};
  for (const MetricSpec& metric : metrics) {
    if (metric.output() >= count) {
      internal::fail_argument("compile", "expected metric '" + metric.name() +
                                             "' on an output below " + std::to_string(count) +
                                             ". Received: " + std::to_string(metric.output()) +
                                             ".");
    }
    const int first = std::max(metric.output(), 0);
    const int last = metric.output() < 0 ? count : first + 1;
    for (int output = first; output < last; ++output) {
      const auto index = static_cast<std::size_t>(output);
      const std::string name = (count > 1 ? names[index] + "_" : "") + metric.name();
      if (!taken.insert(name).second) {
        internal::fail_argument(
            "compile", "expected metrics of different names. Received: '" + name + "' twice.");
      }
      result.push_back({.name = name, .output = index, .function = metric});
    }
  }
  return result;
}

bool computes_in_float16(const internal::LayerState& layer) {
  return layer.policy.compute_dtype() == DType::kFloat16 ||
         std::any_of(layer.sublayers.begin(), layer.sublayers.end(),
                     [](const auto& inner) { return computes_in_float16(*inner); });
}

/// Whether a layer, one inside it, or an op between layers makes float16 values.
bool computes_in_float16(const LayerGraph& model) {
  return std::any_of(model.calls.begin(), model.calls.end(), [&](const LayerGraph::Call& call) {
    if (call.layer != nullptr) return computes_in_float16(*call.layer->state());
    return std::any_of(call.outputs.begin(), call.outputs.end(),
                       [&](int output) { return model.type(output).dtype == DType::kFloat16; });
  });
}

/// As asked for, in a LossScaleOptimizer where float16 gradients are to be expected.
std::shared_ptr<Optimizer> choose_optimizer(const LayerGraph& model, const OptimizerSpec& asked) {
  if (!asked) internal::fail_argument("compile", "expected an optimizer. Received: none.");
  const bool is_scaler = dynamic_cast<const LossScaleOptimizer*>(asked.get().get()) != nullptr;
  if (is_scaler || !computes_in_float16(model)) return asked.get();
  return std::make_shared<LossScaleOptimizer>(asked);
}

}  // namespace

TrainingSpec make_training_spec(const LayerGraph& model, const CompileOptions& options) {
  const std::size_t outputs = model.outputs.size();
  if (options.loss.size() != outputs) {
    internal::fail_argument("compile",
                            "expected a loss for each of the model's " + std::to_string(outputs) +
                                " outputs. Received: " + std::to_string(options.loss.size()) + ".");
  }
  if (!options.loss_weights.empty() && options.loss_weights.size() != outputs) {
    internal::fail_argument(
        "compile", "expected a loss weight for each of the model's " + std::to_string(outputs) +
                       " outputs. Received: " + std::to_string(options.loss_weights.size()) + ".");
  }
  TrainingSpec spec;
  spec.losses.assign(options.loss.begin(), options.loss.end());
  spec.loss_weights = options.loss_weights;
  for (const std::string& name : output_names(model)) spec.loss_names.push_back(name + "_loss");
  spec.metrics = report_metrics(model, options.metrics);
  spec.optimizer = choose_optimizer(model, options.optimizer);
  internal::check_recompute(model, options.recompute);
  spec.recompute = options.recompute;
  spec.memory_limit = options.memory_limit;
  return spec;
}

Trainer::Trainer(const LayerGraph& model, const CompileOptions& options)
    : model_(model),
      options_(options),
      arena_(std::make_shared<runtime::Arena>(make_backend(options.device, options.threads))),
      is_synchronous_(device() == "cpu"),
      seed_(random_seed()) {
  if (options.loss.empty()) return;
  training_ = make_training_spec(model_, options);
  state_ = make_step_state(*training_);
}

const TrainingSpec& Trainer::require_training(const std::string& where) const {
  if (training_) return *training_;
  internal::fail_argument(where,
                          "expected a model compiled with a loss: call compile({.loss = …}) "
                          "first. Received: one without.");
}

std::shared_ptr<Program> Trainer::compile(const StepSpec& spec, const Dataset& data,
                                          const std::string& where) {
  const std::optional<TrainingSpec> asked = training_for_next_program();
  const auto plan = plan_step(model_, spec, asked ? &*asked : nullptr,
                              training_ ? &state_ : nullptr, arena_->backend());
  check_memory(*plan, data, spec, where);
  return std::make_shared<Program>(spec, plan, arena_);
}

std::shared_ptr<Program> Trainer::program(StepMode mode, const Dataset& data, std::int64_t rows,
                                          const std::string& where, DataPlace place) {
  StepSpec spec = internal::make_step_spec(model_, training(), mode, data, rows, seed_, where);
  if (place == DataPlace::kDevice) take_from_device(spec);
  const auto found = std::find_if(programs_.begin(), programs_.end(), [&](const auto& program) {
    return internal::same_step(program->spec(), spec);
  });
  std::shared_ptr<Program> program;
  if (found != programs_.end()) {
    program = *found;
    programs_.erase(found);
  } else {
    program = compile_in_room(std::move(spec), data, where);
    if (programs_.size() == kMaxPrograms) programs_.erase(programs_.begin());
  }
  programs_.push_back(program);
  trains_ = trains_ || mode == StepMode::kTrain;
  arena_->set_planned(planned_bytes(nullptr, trains_).total);
  return program;
}

void Trainer::add_skip(const SkippedStep& skip) {
  append(skips_, skip);
}

void Trainer::add_range_sample(RangeSample sample) {
  append(range_samples_, std::move(sample));
}

void Trainer::run_batch() {
  if (!profile) {
    batch.program->run(batch.buffer);
    return;
  }
  const std::vector<runtime::StepTime> times = batch.program->run_timed(batch.buffer);
  std::exchange(profile, nullptr)(batch.program->plan(), times);
}

void Trainer::leave_batch() {
  batch = {};
  profile = nullptr;
}

std::optional<TrainingSpec> Trainer::training_for_next_program() const {
  std::optional<TrainingSpec> spec = training_;
  if (!spec || !spec->recompute.is_auto()) return spec;
  // Programs share all but these.
  const PlannedBytes all = planned_bytes(nullptr, false);
  const std::size_t taken = all.input_buffers + all.constants;
  const std::size_t limit = internal::memory_limit(arena_->backend(), options_.memory_limit).bytes;
  spec->memory_limit = limit > taken ? limit - taken : 1;
  return spec;
}

TrainingStatus Trainer::status() const {
  TrainingStatus status;
  if (!training_) return status;
  status.step = static_cast<std::int64_t>(state_.steps.value().item());
  if (const LossScaleOptimizer* scaler = loss_scaler()) {
    status.skipped_steps = scaler->skipped_steps();
    status.loss_scale = scaler->scale();
  }
  return status;
}

const LossScaleOptimizer* Trainer::loss_scaler() const {
  return training_ ? dynamic_cast<const LossScaleOptimizer*>(training_->optimizer.get()) : nullptr;
}

std::int64_t Trainer::non_finite_losses() const {
  return static_cast<std::int64_t>(state_.train.at(0).non_finite.value().item());
}

void Trainer::set_seed(std::uint64_t seed) {
  if (seed != seed_) programs_.clear();
  seed_ = seed;
}

Logs Trainer::logs_of(const std::vector<Accumulator>& accumulators) {
  Logs logs;
  for (const Accumulator& accumulator : accumulators) {
    logs.set(accumulator.name, accumulator.mean());
  }
  return logs;
}

void Trainer::reset(const std::vector<Accumulator>& accumulators) {
  for (const Accumulator& accumulator : accumulators) accumulator.reset();
}

}  // namespace demi
