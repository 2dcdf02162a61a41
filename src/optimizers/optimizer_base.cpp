#include <demi/optimizers/optimizer_base.h>

#include <algorithm>
#include <cmath>

#include <demi/ops/optimizer_update.h>
#include <demi/ops/schedule.h>
#include <demi/ops/state.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/core/variable_state.h"
#include "src/ir/emit.h"
#include "src/optimizers/options.h"

namespace demi {
namespace {

using internal::check_option;

Variable make_state(const std::string& name, const Tensor& value, VariableRole role) {
  return Variable(make_variable_state(name, value, role, false));
}

void check_positive(const std::string& where, const char* name, std::optional<double> value) {
  if (value) check_option(*value > 0 && std::isfinite(*value), where, name, "> 0", *value);
}

void check_options(const OptimizerOptions& o) {
  if (o.clipnorm.has_value() + o.clipvalue.has_value() + o.global_clipnorm.has_value() > 1) {
    const auto text = [](const std::optional<double>& value) {
      return value ? fmt::format("{}", *value) : "none";
    };
    internal::fail_argument(
        o.name, fmt::format("expected at most one of clipnorm, clipvalue and global_clipnorm. "
                            "Received: {}, {} and {}.",
                            text(o.clipnorm), text(o.clipvalue), text(o.global_clipnorm)));
  }
  check_positive(o.name, "clipnorm", o.clipnorm);
  check_positive(o.name, "clipvalue", o.clipvalue);
  check_positive(o.name, "global_clipnorm", o.global_clipnorm);
  const double decay = o.weight_decay.value_or(0);
  check_option(decay >= 0 && std::isfinite(decay), o.name, "weight_decay", ">= 0", decay);
  check_option(o.ema_momentum >= 0 && o.ema_momentum <= 1, o.name, "ema_momentum", "in [0, 1]",
               o.ema_momentum);
  const std::int64_t frequency = o.ema_overwrite_frequency.value_or(1);
  check_option(frequency >= 1, o.name, "ema_overwrite_frequency", ">= 1",
               static_cast<double>(frequency));
  const std::int64_t steps = o.gradient_accumulation_steps.value_or(2);
  check_option(steps >= 2, o.name, "gradient_accumulation_steps", ">= 2",
               static_cast<double>(steps));
}

std::vector<SymbolicTensor> read_all(const std::vector<Variable>& variables) {
  return {variables.begin(), variables.end()};
}

}  // namespace

struct OptimizerBase::State {
  /// A trainable variable and what belongs to it.
  struct Entry {
    Variable variable;
    std::vector<Variable> slots;
    Variable accumulator;  ///< sum of unscaled gradients; with gradient accumulation only
    Variable average;      ///< with use_ema only
    bool decays = true;
  };

  OptimizerOptions options;
  Variable iterations;     ///< int64: updates applied
  Variable learning_rate;  ///< float32; empty for a schedule
  Variable position;       ///< int64: steps in the sum of gradients; with accumulation only
  std::vector<Entry> entries;
  std::vector<Variable> excluded;
  std::vector<std::string> excluded_names;

  [[nodiscard]] const Entry* find(const Variable& variable) const {
    for (const Entry& entry : entries) {
      if (entry.variable == variable) return &entry;
    }
    return nullptr;
  }

  [[nodiscard]] bool decays(const Variable& variable) const {
    const bool named = std::any_of(
        excluded_names.begin(), excluded_names.end(),
        [&](const std::string& name) { return variable.name().find(name) != std::string::npos; });
    return !named && std::find(excluded.begin(), excluded.end(), variable) == excluded.end();
  }

  /// Zeros for `variable` under the name "optimizer/variable/slot".
  [[nodiscard]] Variable make_slot(const Variable& variable, const std::string& slot) const {
    return make_state(options.name + "/" + variable.name() + "/" + slot,
                      Tensor(variable.shape(), accumulation_dtype(variable.dtype())),
                      VariableRole::kOptimizerSlot);
  }

  [[nodiscard]] ops::UpdateAttributes common(const std::vector<const Entry*>& updated) const {
    ops::UpdateAttributes attributes{.clip_value = options.clipvalue.value_or(0),
                                     .weight_decay = options.weight_decay.value_or(0)};
    for (const Entry* entry : updated) attributes.decayed.push_back(entry->decays);
    const bool all = std::find(attributes.decayed.begin(), attributes.decayed.end(), false) ==
                     attributes.decayed.end();
    if (all || attributes.weight_decay == 0) attributes.decayed.clear();
    return attributes;
  }

  void accumulate(const std::vector<const Entry*>& updated, ops::UpdateInputs& inputs) const;
  void average(const SymbolicTensor& apply) const;
};

/// Adds this step's gradients to the sums. The update that follows is of the sums, when they are
/// complete.
void OptimizerBase::State::accumulate(const std::vector<const Entry*>& updated,
                                      ops::UpdateInputs& inputs) const {
  const std::int64_t steps = *options.gradient_accumulation_steps;
  std::vector<SymbolicTensor> sums;
  for (const Entry* entry : updated) sums.push_back(entry->accumulator);
  inputs.gradients = ops::accumulate_gradients(inputs.inverse_scale, inputs.apply, position, sums,
                                               inputs.gradients);
  inputs.apply = ops::cycle(position, inputs.apply, steps).completed;
  inputs.inverse_scale =
      ir::emit_constant(inputs.iterations, 1.0 / static_cast<double>(steps), float32);
}

/// Also of variables that were not updated: at the end all become their averages.
void OptimizerBase::State::average(const SymbolicTensor& apply) const {
  std::vector<SymbolicTensor> variables;
  std::vector<SymbolicTensor> averages;
  for (const Entry& entry : entries) {
    variables.push_back(entry.variable);
    averages.push_back(entry.average);
  }
  ops::ema_update(apply, iterations, variables, averages,
                  {.momentum = options.ema_momentum,
                   .overwrite_frequency = options.ema_overwrite_frequency.value_or(0)});
}

OptimizerBase::OptimizerBase(OptimizerOptions options) : state_(std::make_shared<State>()) {
  check_options(options);
  state_->options = std::move(options);
  const OptimizerOptions& o = state_->options;
  state_->iterations =
      make_state(o.name + "/iterations", Tensor::scalar(std::int64_t{0}), VariableRole::kStepState);
  if (o.learning_rate.is_constant()) {
    state_->learning_rate = make_state(o.name + "/learning_rate",
                                       Tensor::scalar(static_cast<float>(o.learning_rate.at(0))),
                                       VariableRole::kStepState);
  }
  if (o.gradient_accumulation_steps) {
    state_->position = make_state(o.name + "/accumulated_steps", Tensor::scalar(std::int64_t{0}),
                                  VariableRole::kStepState);
  }
}

const std::string& OptimizerBase::name() const {
  return state_->options.name;
}

void OptimizerBase::build(const std::vector<Variable>& trainable) {
  if (!state_->entries.empty()) {
    for (const Variable& variable : trainable) {
      if (state_->find(variable) != nullptr) continue;
      internal::fail_argument(
          name(),
          fmt::format("expected variables it was built for (an optimizer trains one model). "
                      "Received: '{}'.",
                      variable.name()));
    }
    return;
  }
  for (const Variable& variable : trainable) {
    State::Entry entry{.variable = variable,
                       .slots = {},
                       .accumulator = {},
                       .average = {},
                       .decays = state_->decays(variable)};
    for (const std::string& slot : slot_names()) {
      entry.slots.push_back(state_->make_slot(variable, slot));
    }
    if (state_->options.gradient_accumulation_steps) {
      entry.accumulator = state_->make_slot(variable, "gradient_sum");
    }
    if (state_->options.use_ema) entry.average = state_->make_slot(variable, "average");
    state_->entries.push_back(std::move(entry));
  }
}

UpdateResult OptimizerBase::apply(const std::vector<GradientAndVariable>& gradients,
                                  const SymbolicTensor&) {
  apply_controlled(gradients, {});
  return {};
}

void OptimizerBase::apply_controlled(const std::vector<GradientAndVariable>& gradients,
                                     const UpdateControls& controls) {
  ops::UpdateInputs inputs;
  std::vector<const State::Entry*> updated;
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    const State::Entry* entry = state_->find(variable);
    if (entry == nullptr) {
      internal::fail_argument(name(), fmt::format("expected variables it was built for. Received: "
                                                  "'{}'.",
                                                  variable.name()));
    }
    updated.push_back(entry);
    inputs.gradients.push_back(gradient);
    inputs.variables.push_back(variable);
  }
  if (updated.empty()) {
    internal::fail_argument(name(),
                            "expected a gradient for at least one variable: the loss depends "
                            "on none of them. Received: none.");
  }
  inputs.iterations = state_->iterations;
  inputs.apply = controls.apply ? controls.apply : ir::emit_constant(inputs.iterations, 1, boolean);
  inputs.inverse_scale = controls.inverse_scale ? controls.inverse_scale
                                                : ir::emit_constant(inputs.iterations, 1, float32);
  inputs.learning_rate = state_->learning_rate
                             ? SymbolicTensor(state_->learning_rate)
                             : ops::schedule(inputs.iterations, state_->options.learning_rate);
  const OptimizerOptions& o = state_->options;
  if (o.gradient_accumulation_steps) state_->accumulate(updated, inputs);
  if (o.clipnorm || o.global_clipnorm) {
    inputs.clip = ops::clip_coefficients(
        inputs.inverse_scale, inputs.gradients,
        {.norm = o.clipnorm ? *o.clipnorm : *o.global_clipnorm, .global = !o.clipnorm});
  }
  for (std::size_t slot = 0; slot < slot_names().size(); ++slot) {
    std::vector<Variable> variables;
    for (const State::Entry* entry : updated) variables.push_back(entry->slots[slot]);
    inputs.slots.push_back(read_all(variables));
  }
  update(inputs, state_->common(updated));
  if (o.use_ema) state_->average(inputs.apply);
  ops::increment(inputs.iterations, inputs.apply);
}

std::vector<Variable> OptimizerBase::variables() const {
  std::vector<Variable> all = {state_->iterations};
  if (state_->learning_rate) all.push_back(state_->learning_rate);
  if (state_->position) all.push_back(state_->position);
  for (const State::Entry& entry : state_->entries) {
    all.insert(all.end(), entry.slots.begin(), entry.slots.end());
    if (entry.accumulator) all.push_back(entry.accumulator);
    if (entry.average) all.push_back(entry.average);
  }
  return all;
}

std::int64_t OptimizerBase::iterations() const {
  return static_cast<std::int64_t>(state_->iterations.value().item());
}

double OptimizerBase::learning_rate() const {
  const LearningRate& given = state_->options.learning_rate;
  if (!state_->learning_rate) return given.at(iterations());
  const double current = state_->learning_rate.value().item();
  // The number as it was given, unless another was set since.
  return current == static_cast<float>(given.at(0)) ? given.at(0) : current;
}

void OptimizerBase::set_learning_rate(double value) {
  if (!state_->learning_rate) {
    internal::fail_argument(name(), fmt::format("expected a learning rate that is a number, not a "
                                                "schedule, to be set. Received: {}.",
                                                value));
  }
  state_->options.learning_rate = LearningRate(value);
  state_->learning_rate.assign(Tensor::scalar(static_cast<float>(value)));
}

void OptimizerBase::finalize_variable_values() {
  if (!state_->options.use_ema || iterations() == 0) return;
  for (const State::Entry& entry : state_->entries) {
    entry.variable.assign(entry.average.value().to(entry.variable.dtype()));
  }
}

void OptimizerBase::exclude_from_weight_decay(const std::vector<Variable>& excluded,
                                              const std::vector<std::string>& excluded_names) {
  if (!state_->entries.empty()) {
    internal::fail_argument(name(),
                            "expected exclude_from_weight_decay before the model is compiled.");
  }
  state_->excluded = excluded;
  state_->excluded_names = excluded_names;
}

Config OptimizerBase::get_config() const {
  const OptimizerOptions& o = state_->options;
  return Config::object(
      {{"name", o.name},
       {"learning_rate",
        state_->learning_rate ? Config(learning_rate()) : o.learning_rate.get_config()},
       {"weight_decay", internal::optional_config(o.weight_decay)},
       {"clipnorm", internal::optional_config(o.clipnorm)},
       {"global_clipnorm", internal::optional_config(o.global_clipnorm)},
       {"clipvalue", internal::optional_config(o.clipvalue)},
       {"use_ema", o.use_ema},
       {"ema_momentum", o.ema_momentum},
       {"ema_overwrite_frequency", internal::optional_config(o.ema_overwrite_frequency)},
       {"gradient_accumulation_steps", internal::optional_config(o.gradient_accumulation_steps)}});
}

}  // namespace demi
