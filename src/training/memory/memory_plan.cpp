#include <algorithm>
#include <optional>

#include "kernels/backend.h"
#include "src/core/check.h"
#include "src/training/memory/describe_memory.h"
#include "src/training/memory/policy_trial.h"
#include "src/training/precision/describe_precision.h"
#include "src/training/step_specs.h"
#include "src/training/trainer.h"

namespace demi {

std::size_t MemoryPlan::peak_call() const {
  const auto most = std::max_element(
      timeline.begin(), timeline.end(),
      [](const MemoryMoment& a, const MemoryMoment& b) { return a.live() < b.live(); });
  return static_cast<std::size_t>(most - timeline.begin());
}

std::vector<PlannedBuffer> MemoryPlan::held_at(std::size_t call) const {
  std::vector<PlannedBuffer> held;
  std::copy_if(buffers.begin(), buffers.end(), std::back_inserter(held),
               [call](const PlannedBuffer& buffer) {
                 return buffer.first_call <= call && call <= buffer.last_call;
               });
  std::stable_sort(held.begin(), held.end(), [](const PlannedBuffer& a, const PlannedBuffer& b) {
    return a.bytes > b.bytes;
  });
  return held;
}

std::size_t MemoryPlan::aliased_bytes() const {
  std::size_t bytes = 0;
  for (const PlannedBuffer& buffer : buffers) bytes += buffer.aliased_bytes;
  return bytes;
}

MemoryPlan Trainer::memory_plan(std::int64_t batch_size, const MemoryPlanOptions& options,
                                const std::string& where) const {
  MemoryPlan described;
  plan_trial(batch_size, options, where, [&](const Trial& trial) {
    described = internal::describe_memory(trial.model, trial.spec, trial.plan, trial.optimizer,
                                          trial.backend.name());
  });
  return described;
}

PrecisionPlan Trainer::precision_report(std::int64_t batch_size, const MemoryPlanOptions& options,
                                        const std::string& where) const {
  PrecisionPlan described;
  plan_trial(batch_size, options, where, [&](const Trial& trial) {
    described = internal::describe_precision(trial.plan, trial.backend);
    described.policy = internal::prevailing_policy(trial.model).name();
    described.batch_size = batch_size;
  });
  return described;
}

void Trainer::plan_trial(std::int64_t batch_size, const MemoryPlanOptions& options,
                         const std::string& where,
                         const std::function<void(const Trial&)>& look) const {
  if (batch_size < 1) {
    internal::fail_argument(
        where, "expected a batch size >= 1. Received: " + std::to_string(batch_size) + ".");
  }
  if (options.mode != StepMode::kPredict) (void)require_training(where);
  if (options.policy.empty()) return plan_trial_of(model_, batch_size, options, where, look);
  const internal::PolicyTrial trial(model_, options.policy, where);
  plan_trial_of(trial.model(), batch_size, options, where, look);
}

void Trainer::plan_trial_of(const LayerGraph& model, std::int64_t batch_size,
                            const MemoryPlanOptions& options, const std::string& where,
                            const std::function<void(const Trial&)>& look) const {
  const std::shared_ptr<Backend> profile =
      options.device_profile.empty() ? nullptr : make_planning_backend(options.device_profile);
  Backend& backend = profile ? *profile : arena_->backend();
  // Another policy may need another optimizer: loss scaling comes with float16.
  std::optional<TrainingSpec> training;
  StepState state;
  if (options.mode != StepMode::kPredict) {
    training = make_training_spec(model, options_);
    state = make_step_state(*training);
  }
  const TrainingSpec* spec_of_training = training ? &*training : nullptr;
  const StepSpec spec =
      options.data.input_count() == 0
          ? internal::make_step_spec(model, spec_of_training, options.mode, batch_size, where)
          : internal::make_step_spec(model, spec_of_training, options.mode, options.data,
                                     batch_size, seed_, where);
  const auto plan = plan_step(model, spec, spec_of_training, training ? &state : nullptr, backend);
  const bool trains = options.mode == StepMode::kTrain;
  look({model, spec, *plan, trains ? training->optimizer.get() : nullptr, backend});
}

}  // namespace demi
