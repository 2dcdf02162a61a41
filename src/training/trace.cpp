#include "src/training/trace.h"

#include <map>
#include <set>

#include <fmt/format.h>

#include <demi/ops/cast.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/layers/call_frame.h"
#include "src/layers/layer_state.h"

namespace demi {
namespace {

class Tracer {
 public:
  Tracer(const LayerGraph& layers, const std::vector<SymbolicTensor>& inputs,
         const CallContext& context)
      : layers_(layers),
        context_(context),
        graph_(inputs[0].graph()),
        values_(layers.values.size()),
        results_(layers.values.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) set(layers.inputs[i].value, inputs[i]);
  }

  TracedModel run() {
    const ir::TraceScope trace(graph_);
    for (const LayerGraph::Call& call : layers_.calls) {
      call.layer != nullptr ? call_layer(call) : replay_op(call);
    }
    for (std::size_t i = 0; i < layers_.outputs.size(); ++i) {
      traced_.outputs.push_back(model_output(i));
    }
    for (const auto& layer : layers_.layers) penalise_weights(*layer->state());
    return std::move(traced_);
  }

 private:
  void set(LayerGraph::ValueIndex index, const SymbolicTensor& value) {
    values_[static_cast<std::size_t>(index)] = value;
    results_[static_cast<std::size_t>(index)] = value;
  }

  [[nodiscard]] std::vector<SymbolicTensor> arguments(const LayerGraph::Call& call) const {
    std::vector<SymbolicTensor> arguments;
    for (const int input : call.inputs) {
      arguments.push_back(values_[static_cast<std::size_t>(input)]);
    }
    return arguments;
  }

  void call_layer(const LayerGraph::Call& call) {
    const internal::LayerState& state = *call.layer->state();
    const std::vector<SymbolicTensor> results = internal::CallFrame::call(
        *call.layer, arguments(call), context_, calls_of_[&state]++, &traced_.losses);
    const ir::ScopeGuard scope(*graph_, {state.path, state.policy.compute_dtype()});
    const std::vector<SymbolicTensor> marked = internal::mark_layer_outputs(results);
    DEMI_CHECK(results.size() == call.outputs.size(), "a layer changed its number of results");
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto index = static_cast<std::size_t>(call.outputs[i]);
      values_[index] = marked[i];
      results_[index] = results[i];
    }
  }

  void replay_op(const LayerGraph::Call& call) {
    // Outside of layers there is no policy: ops run in the dtype that their inputs show.
    DType compute = float32;
    bool found = false;
    for (const int input : call.inputs) {
      const DType dtype = layers_.type(input).dtype;
      if (!is_floating(dtype)) continue;
      compute = found ? promote(compute, dtype) : dtype;
      found = true;
    }
    const ir::ScopeGuard scope(*graph_, {"", compute});
    std::vector<ir::ValueId> inputs;
    for (const SymbolicTensor& argument : arguments(call)) inputs.push_back(argument.value());
    const ir::NodeId node = graph_->add_node(*call.op, std::move(inputs), call.attributes);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      set(call.outputs[i], graph_->tensor(graph_->node(node).outputs[i]));
    }
  }

  /// The value before it is brought to the last layer's compute dtype, so that a softmax in float32
  /// leaves the model as computed.
  SymbolicTensor model_output(std::size_t i) {
    SymbolicTensor value = results_[static_cast<std::size_t>(layers_.outputs[i].value)];
    while (ir::producer(value).op->name == "layer_output") {
      value = graph_->tensor(ir::producer(value).inputs[0]);
    }
    if (!is_floating(value.dtype())) return value;
    return ops::cast(value, layers_.output_type(i).dtype);
  }

  void penalise_weights(const internal::LayerState& layer) {
    internal::for_each_weight(
        layer, [&](const internal::LayerState& owner, const internal::Weight& weight) {
          if (!weight.regularizer || !weight.variable.trainable()) return;
          if (!penalised_.insert(weight.variable.state().get()).second) return;
          // The scope's dtype makes the penalty read the variable itself, not its 16-bit copy.
          const ir::ScopeGuard scope(*graph_, {owner.path, weight.variable.dtype()});
          traced_.losses.push_back((*weight.regularizer)(weight.variable));
        });
  }

  const LayerGraph& layers_;
  CallContext context_;
  std::shared_ptr<ir::Graph> graph_;
  std::vector<SymbolicTensor> values_;   ///< as the next layer reads them
  std::vector<SymbolicTensor> results_;  ///< as the layer returned them
  std::map<const internal::LayerState*, std::uint64_t> calls_of_;
  std::set<const VariableState*> penalised_;
  TracedModel traced_;
};

void check_inputs(const LayerGraph& layers, const std::vector<SymbolicTensor>& inputs) {
  if (inputs.size() != layers.inputs.size()) {
    internal::fail_argument("model", fmt::format("expected {} inputs. Received: {}.",
                                                 layers.inputs.size(), inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& expected = layers.type(layers.inputs[i].value).shape;
    const Shape& received = inputs[i].shape();
    bool fits = received.rank() == expected.rank();
    for (int axis = 0; fits && axis < expected.rank(); ++axis) {
      fits = expected[axis] == Shape::kUnknown || expected[axis] == received[axis];
    }
    if (fits) continue;
    internal::fail_argument(
        "model", fmt::format("expected input '{}' of shape {}. Received: {}.",
                             layers.inputs[i].name, expected.to_string(), received.to_string()));
  }
}

}  // namespace

TracedModel trace_model(const LayerGraph& layers, const std::vector<SymbolicTensor>& inputs,
                        const CallContext& context) {
  check_inputs(layers, inputs);
  return Tracer(layers, inputs, context).run();
}

}  // namespace demi
