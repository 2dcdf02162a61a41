#include <demi/layer.h>

#include <set>

#include <fmt/format.h>

#include <demi/ops/cast.h>

#include "src/core/check.h"
#include "src/core/variable_state.h"
#include "src/ir/emit.h"
#include "src/layers/building_graph.h"
#include "src/layers/call_frame.h"
#include "src/layers/keras_object.h"
#include "src/layers/layer_state.h"

namespace demi {
namespace {

/// The results of a layer as the functional API shows them: values of their own, in the compute
/// dtype.
std::vector<SymbolicTensor> visible_outputs(const Layer& layer,
                                            const std::vector<SymbolicTensor>& outputs) {
  std::vector<SymbolicTensor> visible;
  for (const SymbolicTensor& output : outputs) {
    const bool floating = is_floating(output.dtype());
    visible.push_back(floating ? ops::cast(output, layer.dtype_policy().compute_dtype())
                               : ir::emit("layer_output", {output}));
  }
  return visible;
}

internal::CallFrame& frame_of(const Layer& layer, const char* what) {
  internal::CallFrame* frame = internal::CallFrame::current();
  if (frame == nullptr || frame->layer().state() != layer.state()) {
    internal::fail_argument(layer.name(),
                            fmt::format("expected {} to be used inside call().", what));
  }
  return *frame;
}

}  // namespace

Layer::Layer(LayerSetup setup) : state_(std::make_shared<internal::LayerState>()) {
  DEMI_CHECK(!setup.class_name.empty(), "a layer needs a class name");
  const std::string kind = internal::snake_case(setup.class_name);
  internal::check_name(setup.name, kind);
  state_->name = setup.name.empty() ? internal::unique_name(kind) : std::move(setup.name);
  state_->class_name = std::move(setup.class_name);
  state_->policy = setup.dtype ? *setup.dtype : global_policy();
  state_->trainable = setup.trainable;
  state_->seed = internal::next_layer_seed();
}

const std::string& Layer::name() const {
  return state_->name;
}
const std::string& Layer::class_name() const {
  return state_->class_name;
}
const DTypePolicy& Layer::dtype_policy() const {
  return state_->policy;
}
bool Layer::built() const {
  return state_->built;
}
bool Layer::trainable() const {
  return state_->trainable;
}
void Layer::set_trainable(bool trainable) {
  internal::set_trainable(*state_, trainable);
}

std::string Layer::where() const {
  if (state_->name.starts_with(internal::snake_case(state_->class_name))) return state_->name;
  return fmt::format("{} '{}'", state_->class_name, state_->name);
}

std::vector<Variable> Layer::variables() const {
  std::vector<Variable> result;
  std::set<const VariableState*> seen;
  internal::for_each_weight(*state_, [&](const auto&, const internal::Weight& weight) {
    if (seen.insert(weight.variable.state().get()).second) result.push_back(weight.variable);
  });
  return result;
}

std::vector<Variable> Layer::trainable_variables() const {
  std::vector<Variable> result = variables();
  std::erase_if(result, [](const Variable& variable) { return !variable.trainable(); });
  return result;
}

std::vector<Variable> Layer::non_trainable_variables() const {
  std::vector<Variable> result = variables();
  std::erase_if(result, [](const Variable& variable) { return variable.trainable(); });
  return result;
}

std::int64_t Layer::count_params() const {
  std::int64_t count = 0;
  for (const Variable& variable : variables()) count += variable.shape().elements();
  return count;
}

SymbolicTensor Layer::operator()(const SymbolicTensor& input) {
  return (*this)(std::vector{input});
}

SymbolicTensor Layer::operator()(const std::vector<SymbolicTensor>& inputs) {
  std::vector<SymbolicTensor> outputs = apply(inputs);
  if (outputs.size() != 1) {
    internal::fail_argument(where(), fmt::format("expected one result; take several with apply(). "
                                                 "Received: {}.",
                                                 outputs.size()));
  }
  return outputs[0];
}

std::vector<SymbolicTensor> Layer::apply(const std::vector<SymbolicTensor>& inputs) {
  if (internal::CallFrame* frame = internal::CallFrame::current()) {
    return frame->call_inner(*this, inputs);
  }
  const std::shared_ptr<BuildingGraph> graph =
      inputs.empty() ? nullptr : BuildingGraph::of(inputs[0]);
  if (graph == nullptr) {
    internal::fail_argument(
        where(),
        fmt::format("expected values made by demi::Input, layers or demi::ops. Received: {}.",
                    inputs.empty() ? "none"
                    : inputs[0]    ? "a value of a step being compiled"
                                   : "an empty SymbolicTensor"));
  }
  const std::vector<SymbolicTensor> outputs = visible_outputs(
      *this, internal::CallFrame::call(*this, inputs, {.training = false}, 0, nullptr));
  BuildingGraph::LayerCall call{clone(), {}, {}};
  for (const SymbolicTensor& input : inputs) call.inputs.push_back(input.value());
  for (const SymbolicTensor& output : outputs) call.outputs.push_back(output.value());
  graph->record(std::move(call));
  return outputs;
}

void Layer::build_many(const std::vector<Shape>& input_shapes) {
  build(input_shapes.at(0));
}

SymbolicTensor Layer::call(const SymbolicTensor& /*x*/, const CallContext& /*context*/) {
  internal::fail_argument(where(), "expected class " + class_name() +
                                       " to override call or call_many. Received: neither.");
}

std::vector<SymbolicTensor> Layer::call_many(const std::vector<SymbolicTensor>& inputs,
                                             const CallContext& context) {
  if (inputs.size() != 1) {
    internal::fail_argument(where(),
                            fmt::format("expected one input. Received: {}.", inputs.size()));
  }
  return {call(inputs[0], context)};
}

Config Layer::get_config() const {
  return Config::object(
      {{"name", name()},
       {"trainable", trainable()},
       {"dtype", internal::keras_object("keras", "DTypePolicy",
                                        Config::object({{"name", dtype_policy().name()}}))}});
}

Variable Layer::add_weight(const WeightOptions& options) {
  internal::check_name(options.name, where());
  if (internal::CallFrame* frame = internal::CallFrame::current()) frame->adopt(*this);
  if (state_->path.empty()) state_->path = state_->name;
  if (options.name.empty() || !options.shape.is_known()) {
    internal::fail_argument(
        where(), fmt::format("expected a weight with a name and a known shape. Received: "
                             "'{}' of shape {}.",
                             options.name, options.shape.to_string()));
  }
  for (const internal::Weight& weight : state_->weights) {
    if (weight.name != options.name) continue;
    if (weight.variable.shape() == options.shape) return weight.variable;
    internal::fail_argument(
        where(),
        fmt::format("expected inputs for which '{}' is {}, as when it was first called. "
                    "Received: inputs for which it is {}.",
                    options.name, weight.variable.shape().to_string(), options.shape.to_string()));
  }
  const DType dtype = options.dtype.value_or(state_->policy.variable_dtype());
  const std::uint64_t seed = internal::mix_keys(state_->seed, internal::hash_name(options.name));
  const auto variable = make_variable_state(
      state_->path + "/" + options.name, options.initializer(options.shape, dtype, seed),
      VariableRole::kWeight, options.trainable && state_->trainable);
  variable->autocast = options.autocast;
  state_->weights.push_back(
      {options.name, Variable(variable), options.regularizer, options.trainable});
  return state_->weights.back().variable;
}

void Layer::add_loss(const SymbolicTensor& loss) {
  internal::CallFrame& frame = frame_of(*this, "add_loss");
  if (!loss || loss.shape().rank() != 0 || !is_floating(loss.dtype())) {
    internal::fail_argument(where(), "expected a floating scalar as loss. Received: " +
                                         (loss ? TensorType{loss.shape(), loss.dtype()}.to_string()
                                               : std::string("an empty value")) +
                                         ".");
  }
  frame.add_loss(loss);
}

std::uint64_t Layer::random_key() const {
  const internal::CallFrame& frame = frame_of(*this, "random_key");
  const std::uint64_t layer_key = internal::mix_keys(frame.graph().randomness.seed, state_->seed);
  return internal::mix_keys(layer_key, frame.key());
}

SymbolicTensor Layer::random_step() const {
  ir::Graph& graph = frame_of(*this, "random_step").graph();
  DEMI_CHECK(graph.randomness.counter != nullptr, "the graph being traced has no step counter");
  return graph.tensor(graph.read_variable(graph.randomness.counter));
}

}  // namespace demi
