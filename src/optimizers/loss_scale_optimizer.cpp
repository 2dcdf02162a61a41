#include <demi/optimizers/loss_scale_optimizer.h>

#include <algorithm>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/loss_scale.h>
#include <demi/ops/unary.h>
#include <fmt/format.h>

#include "src/core/check.h"
#include "src/core/variable_state.h"
#include "src/ir/graph.h"
#include "src/optimizers/options.h"

namespace demi {
namespace {

using internal::check_option;

void refuse_inner_options(const LossScaleOptions& o) {
  const std::pair<const char*, bool> given[] = {
      {"weight_decay", o.weight_decay.has_value()},
      {"clipnorm", o.clipnorm.has_value()},
      {"clipvalue", o.clipvalue.has_value()},
      {"global_clipnorm", o.global_clipnorm.has_value()},
      {"use_ema", o.use_ema.has_value()},
      {"ema_momentum", o.ema_momentum.has_value()},
      {"ema_overwrite_frequency", o.ema_overwrite_frequency.has_value()},
      {"gradient_accumulation_steps", o.gradient_accumulation_steps.has_value()}};
  for (const auto& [name, is_given] : given) {
    if (is_given) {
      internal::fail_argument(
          o.name,
          fmt::format("expected {0} to be set on the wrapped optimizer. Received: {0} as an "
                      "option of the LossScaleOptimizer.",
                      name));
    }
  }
}

void check_options(const LossScaleOptions& o) {
  refuse_inner_options(o);
  check_option(o.initial_scale >= ops::kMinLossScale && o.initial_scale <= ops::kMaxLossScale,
               o.name, "initial_scale", "in [2^-14, 2^24]", o.initial_scale);
  check_option(o.dynamic_growth_steps >= 1, o.name, "dynamic_growth_steps", ">= 1",
               static_cast<double>(o.dynamic_growth_steps));
  check_option(o.max_consecutive_skips >= 1, o.name, "max_consecutive_skips", ">= 1",
               static_cast<double>(o.max_consecutive_skips));
}

std::shared_ptr<OptimizerBase> check_inner(const OptimizerSpec& inner, const std::string& where) {
  if (!inner) internal::fail_argument(where, "expected an optimizer to wrap. Received: none.");
  auto base = std::dynamic_pointer_cast<OptimizerBase>(inner.get());
  if (base == nullptr) {
    internal::fail_argument(
        where,
        fmt::format("expected an optimizer that does not scale the loss itself. Received: {}.",
                    inner.get()->class_name()));
  }
  return base;
}

std::int64_t read_counter(const Variable& counter) {
  return static_cast<std::int64_t>(counter.value().item());
}

}  // namespace

struct LossScaleOptimizer::State {
  LossScaleOptions options;
  Variable scale;       ///< float32
  Variable good_steps;  ///< int64, like the next two
  Variable skipped_steps;
  Variable consecutive_skips;
  std::weak_ptr<ir::Graph> scaled_in;  ///< the graph that scale_loss was last called for
};

LossScaleOptimizer::LossScaleOptimizer(const OptimizerSpec& inner, const LossScaleOptions& options)
    : inner_(check_inner(inner, options.name)), state_(std::make_shared<State>()) {
  check_options(options);
  state_->options = options;
  const auto make = [&](const char* name, const Tensor& value) {
    return Variable(
        make_variable_state(options.name + "/" + name, value, VariableRole::kStepState, false));
  };
  const Tensor zero = Tensor::scalar(std::int64_t{0});
  state_->scale = make("scale", Tensor::scalar(static_cast<float>(options.initial_scale)));
  state_->good_steps = make("good_steps", zero);
  state_->skipped_steps = make("skipped_steps", zero);
  state_->consecutive_skips = make("consecutive_skips", zero);
}

LossScaleOptimizer LossScaleOptimizer::from_config(const Config& config) {
  LossScaleOptions options;
  internal::OptionReader reader("loss_scale_optimizer", config);
  reader.read("name", options.name);
  reader.read("initial_scale", options.initial_scale);
  reader.read("dynamic_growth_steps", options.dynamic_growth_steps);
  reader.read("dynamic", options.dynamic);
  reader.read("max_consecutive_skips", options.max_consecutive_skips);
  reader.read("weight_decay", options.weight_decay);
  reader.read("clipnorm", options.clipnorm);
  reader.read("clipvalue", options.clipvalue);
  reader.read("global_clipnorm", options.global_clipnorm);
  reader.read("use_ema", options.use_ema);
  reader.read("ema_momentum", options.ema_momentum);
  reader.read("ema_overwrite_frequency", options.ema_overwrite_frequency);
  reader.read("gradient_accumulation_steps", options.gradient_accumulation_steps);
  const Config* inner = reader.find("inner_optimizer");
  reader.finish();
  if (inner == nullptr) {
    internal::fail_argument("loss_scale_optimizer", "expected an inner_optimizer. Received: none.");
  }
  return LossScaleOptimizer(optimizer_from_config(*inner), options);
}

const std::string& LossScaleOptimizer::name() const {
  return state_->options.name;
}

double LossScaleOptimizer::scale() const {
  return state_->scale.value().item();
}

std::int64_t LossScaleOptimizer::good_steps() const {
  return read_counter(state_->good_steps);
}

std::int64_t LossScaleOptimizer::skipped_steps() const {
  return read_counter(state_->skipped_steps);
}

std::int64_t LossScaleOptimizer::consecutive_skips() const {
  return read_counter(state_->consecutive_skips);
}

std::int64_t LossScaleOptimizer::max_consecutive_skips() const {
  return state_->options.max_consecutive_skips;
}

SymbolicTensor LossScaleOptimizer::scale_loss(const SymbolicTensor& loss) {
  if (!loss || !is_floating(loss.dtype())) {
    internal::fail_argument(name(), "expected a floating loss.");
  }
  state_->scaled_in = loss.graph();
  // float16 ends at 65504: a loss of 2 would overflow at the initial scale.
  const DType dtype = accumulation_dtype(loss.dtype());
  return ops::multiply(ops::cast(loss, dtype), ops::cast(state_->scale, dtype));
}

UpdateResult LossScaleOptimizer::apply(const std::vector<GradientAndVariable>& gradients,
                                       const SymbolicTensor& loss) {
  std::vector<SymbolicTensor> values = {loss};
  for (const GradientAndVariable& pair : gradients) {
    if (!pair.gradient) continue;
    values.push_back(pair.gradient);
    if (pair.gradient.graph() != state_->scaled_in.lock()) {
      internal::fail_argument(name(),
                              "expected gradients of the loss that scale_loss returned. "
                              "Received: gradients of a graph in which scale_loss was not "
                              "called.");
    }
  }
  const SymbolicTensor finite = ops::all_finite(values);
  inner_->apply_controlled(gradients,
                           {.inverse_scale = ops::reciprocal(state_->scale), .apply = finite});
  ops::loss_scale_update(
      {state_->scale, state_->good_steps, state_->skipped_steps, state_->consecutive_skips}, finite,
      {.growth_steps = state_->options.dynamic_growth_steps, .dynamic = state_->options.dynamic});
  return {finite};
}

std::vector<Variable> LossScaleOptimizer::variables() const {
  std::vector<Variable> all = {state_->scale, state_->good_steps, state_->skipped_steps,
                               state_->consecutive_skips};
  const std::vector<Variable> inner = inner_->variables();
  all.insert(all.end(), inner.begin(), inner.end());
  return all;
}

Config LossScaleOptimizer::get_config() const {
  const LossScaleOptions& o = state_->options;
  return Config::object({{"name", o.name},
                         {"inner_optimizer", optimizer_to_config(*inner_)},
                         {"initial_scale", o.initial_scale},
                         {"dynamic_growth_steps", o.dynamic_growth_steps},
                         {"dynamic", o.dynamic},
                         {"max_consecutive_skips", o.max_consecutive_skips}});
}

}  // namespace demi
