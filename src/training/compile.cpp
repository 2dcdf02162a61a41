#include "src/training/compile.h"

#include <algorithm>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/gather_rows.h>
#include <demi/ops/reduction.h>
#include <demi/ops/state.h>

#include "src/core/check.h"
#include "src/ir/builtin_ops.h"
#include "src/ir/op_registry.h"
#include "src/passes/passes.h"
#include "src/training/memory/recompute_step.h"
#include "src/training/trace.h"

namespace demi {
namespace {

/// The forward half of a step.
struct Forward {
  std::vector<SymbolicTensor> outputs;
  SymbolicTensor loss;                   ///< scalar; empty for kPredict
  std::vector<SymbolicTensor> reported;  ///< scalars, in the order of StepState's accumulators
};

SymbolicTensor scalar_constant(ir::Graph& graph, double value, DType dtype) {
  const ir::NodeId node = graph.add_node(ir::OpRegistry::instance().find("constant"), {},
                                         ir::ConstantAttributes{value, {}, dtype});
  return graph.tensor(graph.node(node).outputs[0]);
}

SymbolicTensor add_feed(ir::Graph& graph, const FeedSpec& feed) {
  const SymbolicTensor stored = graph.tensor(graph.add_input(feed.name, feed.type));
  const bool as_stored = feed.scale == 1 && feed.offset == 0;
  return as_stored ? stored : ops::rescale(stored, feed.scale, feed.offset);
}

SymbolicTensor mean_of(const SymbolicTensor& values) {
  const SymbolicTensor wide = is_half(values.dtype()) ? ops::cast(values, float32) : values;
  return wide.shape().rank() == 0 ? wide : ops::mean(wide);
}

/// The loss of every output, their weighted sum and the metrics.
void write_losses(const TrainingSpec& training, const std::vector<SymbolicTensor>& targets,
                  const std::vector<SymbolicTensor>& penalties, Forward& forward) {
  std::vector<SymbolicTensor> losses;
  SymbolicTensor total;
  const auto add_to_total = [&total](const SymbolicTensor& value) {
    total = total ? ops::add(total, value) : value;
  };
  for (std::size_t i = 0; i < training.losses.size(); ++i) {
    if (!training.losses[i]) continue;
    const SymbolicTensor loss = mean_of(training.losses[i](targets[i], forward.outputs[i]));
    losses.push_back(loss);
    const double weight = training.loss_weights.empty() ? 1.0 : training.loss_weights[i];
    add_to_total(weight == 1.0 ? loss : ops::multiply(loss, weight));
  }
  for (const SymbolicTensor& penalty : penalties) add_to_total(penalty);
  DEMI_CHECK(static_cast<bool>(total), "a step that is evaluated needs a loss");
  forward.loss = total;
  forward.reported.push_back(total);
  if (losses.size() > 1) {
    forward.reported.insert(forward.reported.end(), losses.begin(), losses.end());
  }
  for (const ReportedMetric& metric : training.metrics) {
    forward.reported.push_back(
        mean_of(metric.function(targets[metric.output], forward.outputs[metric.output])));
  }
}

/// Inputs, then targets, of samples that the step itself takes from the data set.
std::vector<SymbolicTensor> gather_feeds(ir::Graph& graph, const StepSpec& spec) {
  std::vector<SymbolicTensor> arrays;
  std::vector<ops::RescaleAttributes> rescales;
  for (const std::vector<FeedSpec>* feeds : {&spec.inputs, &spec.targets}) {
    for (const FeedSpec& feed : *feeds) {
      arrays.push_back(graph.tensor(graph.read_variable(feed.array)));
      rescales.push_back({feed.scale, feed.offset});
    }
  }
  const TensorType rows = {{spec.inputs[0].type.shape[0]}, int64};
  return ops::gather_rows(graph.tensor(graph.add_input("rows", rows)), arrays, rescales);
}

std::vector<SymbolicTensor> add_feeds(ir::Graph& graph, const StepSpec& spec) {
  if (spec.gathers_rows()) return gather_feeds(graph, spec);
  std::vector<SymbolicTensor> values;
  for (const FeedSpec& feed : spec.inputs) values.push_back(add_feed(graph, feed));
  for (const FeedSpec& feed : spec.targets) values.push_back(add_feed(graph, feed));
  return values;
}

Forward write_forward(ir::Graph& graph, const LayerGraph& model, const StepSpec& spec,
                      const TrainingSpec* training) {
  const std::vector<SymbolicTensor> feeds = add_feeds(graph, spec);
  std::vector<SymbolicTensor> inputs;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    inputs.push_back(ops::cast(feeds[i], model.type(model.inputs[i].value).dtype));
  }
  const std::vector<SymbolicTensor> targets(
      feeds.begin() + static_cast<std::ptrdiff_t>(inputs.size()), feeds.end());
  TracedModel traced = trace_model(model, inputs, {.training = spec.mode == StepMode::kTrain});
  Forward forward;
  forward.outputs = std::move(traced.outputs);
  if (spec.mode != StepMode::kPredict) write_losses(*training, targets, traced.losses, forward);
  return forward;
}

/// The backward half and the update.
void write_training(ir::Graph& graph, const LayerGraph& model, const TrainingSpec& training,
                    const StepState& state, const SymbolicTensor& loss) {
  const std::vector<Variable> variables = model.trainable_variables();
  training.optimizer->build(variables);
  const SymbolicTensor scaled = training.optimizer->scale_loss(loss);
  std::vector<std::shared_ptr<VariableState>> states;
  for (const Variable& variable : variables) states.push_back(variable.state());
  const std::vector<SymbolicTensor> gradients = passes::differentiate(graph, scaled, states);

  const ir::ScopeGuard scope(graph, {.layer = "", .phase = ir::Phase::kUpdate});
  std::vector<GradientAndVariable> pairs;
  for (std::size_t i = 0; i < variables.size(); ++i) pairs.push_back({gradients[i], variables[i]});
  const UpdateResult update = training.optimizer->apply(pairs, loss);
  if (update.finite) passes::guard_updates(graph, update.finite);
  ops::increment(state.steps);
}

void write_accumulators(ir::Graph& graph, const std::vector<Accumulator>& accumulators,
                        const std::vector<SymbolicTensor>& values, std::int64_t batch) {
  const ir::ScopeGuard scope(graph, {.layer = "", .phase = ir::Phase::kUpdate});
  const SymbolicTensor weight = scalar_constant(graph, static_cast<double>(batch), float64);
  for (std::size_t i = 0; i < accumulators.size(); ++i) {
    const Accumulator& sum = accumulators[i];
    ops::accumulate({sum.total, sum.weight, sum.non_finite}, values[i], weight);
  }
}

/// Moving averages that layers have written; nothing reads their new values.
void erase_updates(ir::Graph& graph) {
  const std::vector<ir::NodeId> order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (graph.node(*id).op->overwrites != nullptr) graph.erase(*id);
  }
}

bool computes_in_16_bits(const ir::Graph& graph) {
  return std::any_of(graph.order().begin(), graph.order().end(),
                     [&](ir::NodeId id) { return is_half(graph.node(id).scope.compute_dtype); });
}

/// Lets the layers of a graph that has not been autocast compute as under mixed_float16.
void assume_float16(ir::Graph& graph) {
  for (const ir::NodeId id : graph.order()) {
    ir::Scope& scope = graph.node(id).scope;
    if (!scope.layer.empty() && scope.compute_dtype == DType::kFloat32) {
      scope.compute_dtype = DType::kFloat16;
    }
  }
}

void optimise(ir::Graph& graph, const Backend& backend) {
  passes::simplify(graph);
  passes::fuse(graph, backend.capabilities());
  passes::simplify(graph);
  ir::verify(graph);
}

Variable state_variable(const std::string& name, const Tensor& value) {
  return Variable(make_variable_state(name, value, VariableRole::kStepState, false));
}

Accumulator make_accumulator(const std::string& prefix, const std::string& name) {
  const std::string path = prefix + "/" + name;
  return {name, state_variable(path + "/total", Tensor::scalar(0.0)),
          state_variable(path + "/weight", Tensor::scalar(0.0)),
          state_variable(path + "/non_finite", Tensor::scalar(std::int64_t{0}))};
}

}  // namespace

std::shared_ptr<const plan::Plan> plan_step(const LayerGraph& model, const StepSpec& spec,
                                            const TrainingSpec* training, const StepState* state,
                                            Backend& backend) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  if (state != nullptr) graph->randomness = {spec.seed, state->steps.state()};

  const Forward forward = write_forward(*graph, model, spec, training);
  passes::use_logits(*graph);
  passes::autocast(*graph);
  const std::int64_t batch = spec.inputs.at(0).type.shape[0];
  if (spec.mode == StepMode::kPredict) {
    for (std::size_t i = 0; i < forward.outputs.size(); ++i) {
      graph->add_output(model.outputs[i].name, forward.outputs[i].value());
    }
  } else {
    const bool training_step = spec.mode == StepMode::kTrain;
    if (training_step) write_training(*graph, model, *training, *state, forward.loss);
    write_accumulators(*graph, training_step ? state->train : state->evaluate, forward.reported,
                       batch);
  }
  passes::simplify(*graph);
  passes::keep_weight_copies(*graph, backend.capabilities());
  optimise(*graph, backend);
  if (spec.mode == StepMode::kTrain) {
    internal::apply_recompute(graph, model, *training, backend);
    ir::verify(*graph);
  }
  return plan::make_plan(graph, backend);
}

ObservedPlan plan_observed_step(const LayerGraph& model, const StepSpec& spec,
                                const TrainingSpec& training, const StepState& state,
                                Backend& backend, Precision precision) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  graph->randomness = {spec.seed, state.steps.state()};
  const bool widens = precision == Precision::kFloat32;

  const Forward forward = write_forward(*graph, model, spec, &training);
  if (widens && !computes_in_16_bits(*graph)) assume_float16(*graph);
  passes::use_logits(*graph);
  passes::autocast(*graph);
  const std::vector<Variable> variables = model.trainable_variables();
  std::vector<std::shared_ptr<VariableState>> states;
  for (const Variable& variable : variables) states.push_back(variable.state());
  const SymbolicTensor loss = widens ? forward.loss : training.optimizer->scale_loss(forward.loss);
  const std::vector<SymbolicTensor> gradients = passes::differentiate(*graph, loss, states);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (gradients[i]) graph->add_output(variables[i].name(), gradients[i].value());
  }
  erase_updates(*graph);
  optimise(*graph, backend);
  ObservedPlan observed;
  if (widens) {
    observed.narrow = passes::widen(*graph);
    passes::simplify(*graph);
    ir::verify(*graph);
  }
  observed.plan = plan::make_plan(graph, backend);
  return observed;
}

Program::Program(StepSpec spec, std::shared_ptr<const plan::Plan> plan,
                 std::shared_ptr<runtime::Arena> arena)
    : spec_(std::move(spec)), executor_(std::move(plan), std::move(arena), kBuffers) {}

double Accumulator::mean() const {
  const double samples = weight.value().item();
  return samples > 0 ? total.value().item() / samples : 0;
}

void Accumulator::reset() const {
  total.assign(Tensor::scalar(0.0));
  weight.assign(Tensor::scalar(0.0));
  non_finite.assign(Tensor::scalar(std::int64_t{0}));
}

StepState make_step_state(const TrainingSpec& spec) {
  std::vector<std::string> names = {"loss"};
  std::vector<std::string> per_output;
  for (std::size_t i = 0; i < spec.losses.size(); ++i) {
    if (spec.losses[i]) per_output.push_back(spec.loss_names.at(i));
  }
  if (per_output.size() > 1) names.insert(names.end(), per_output.begin(), per_output.end());
  for (const ReportedMetric& metric : spec.metrics) names.push_back(metric.name);

  StepState state;
  state.steps = state_variable("steps", Tensor::scalar(std::int64_t{0}));
  for (const std::string& name : names) {
    state.train.push_back(make_accumulator("train", name));
    state.evaluate.push_back(make_accumulator("evaluate", name));
  }
  return state;
}

std::map<std::string, std::size_t> planned_activation_bytes(const LayerGraph& model,
                                                            std::int64_t batch_size) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  graph->randomness.counter =
      make_variable_state("steps", Tensor::scalar(std::int64_t{0}), VariableRole::kStepState);
  std::vector<SymbolicTensor> inputs;
  for (const LayerGraph::Input& input : model.inputs) {
    TensorType type = model.type(input.value);
    type.shape.set(0, batch_size);
    inputs.push_back(graph->tensor(graph->add_input(input.name, type)));
  }
  const TracedModel traced = trace_model(model, inputs, {.training = true});
  passes::autocast(*graph);
  std::vector<passes::Seed> seeds;
  for (const SymbolicTensor& output : traced.outputs) {
    if (!is_floating(output.dtype())) continue;
    const TensorType type{output.shape(), output.dtype()};
    seeds.push_back({output, graph->tensor(graph->add_input("gradient", type))});
  }
  std::vector<SymbolicTensor> weights;
  for (const Variable& variable : model.trainable_variables()) weights.push_back(variable);
  for (const SymbolicTensor& gradient : passes::differentiate(*graph, seeds, weights)) {
    if (gradient) graph->add_output("gradient", gradient.value());
  }
  const auto backend = make_cpu_backend(1);
  optimise(*graph, *backend);
  std::map<std::string, std::size_t> bytes;
  const std::shared_ptr<const plan::Plan> plan = plan::make_plan(graph, *backend);
  for (const plan::Buffer& buffer : plan->buffers) {
    if (buffer.kind == BufferKind::kActivation) bytes[buffer.layer] += buffer.bytes;
  }
  return bytes;
}

}  // namespace demi
