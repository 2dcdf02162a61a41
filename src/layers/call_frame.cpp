#include "src/layers/call_frame.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/layers/building_graph.h"
#include "src/layers/layer_state.h"

namespace demi::internal {
namespace {

CallFrame*& current_frame() {
  thread_local CallFrame* frame = nullptr;
  return frame;
}

void check_inputs(const Layer& layer, const std::vector<SymbolicTensor>& inputs) {
  if (inputs.empty()) {
    fail_argument(layer.where(), "expected at least one input. Received: none.");
  }
  for (const SymbolicTensor& input : inputs) {
    if (!input) {
      fail_argument(layer.where(), "expected a value. Received: an empty SymbolicTensor.");
    }
    if (input.graph() != inputs[0].graph()) {
      fail_argument(layer.where(),
                    "expected inputs of one graph. Received: values of two graphs (were they made "
                    "on different threads?).");
    }
  }
}

void check_outputs(const Layer& layer, const std::vector<SymbolicTensor>& outputs,
                   const ir::Graph& graph) {
  const bool valid = std::all_of(outputs.begin(), outputs.end(), [&](const SymbolicTensor& value) {
    return value && value.graph().get() == &graph;
  });
  if (!outputs.empty() && valid) return;
  fail_argument(layer.where(),
                "expected call() to return values computed from its inputs. Received: an empty or "
                "foreign value.");
}

}  // namespace

std::vector<SymbolicTensor> mark_layer_outputs(std::vector<SymbolicTensor> values) {
  for (SymbolicTensor& value : values) {
    if (is_floating(value.dtype())) value = ir::emit("layer_output", {value});
  }
  return values;
}

CallFrame::CallFrame(Layer& layer, ir::Graph& graph, const CallContext& context, std::uint64_t key,
                     std::vector<SymbolicTensor>* losses)
    : layer_(layer),
      graph_(graph),
      context_(context),
      key_(key),
      losses_(losses),
      outer_(current_frame()) {
  current_frame() = this;
}

CallFrame::~CallFrame() {
  current_frame() = outer_;
}

CallFrame* CallFrame::current() {
  return current_frame();
}

std::vector<SymbolicTensor> CallFrame::call(Layer& layer, const std::vector<SymbolicTensor>& inputs,
                                            const CallContext& context, std::uint64_t key,
                                            std::vector<SymbolicTensor>* losses) {
  check_inputs(layer, inputs);
  LayerState& state = *layer.state();
  if (state.path.empty()) state.path = state.name;
  CallFrame frame(layer, *inputs[0].graph(), context, key, losses);
  return frame.run(inputs);
}

std::vector<SymbolicTensor> CallFrame::call_inner(Layer& layer,
                                                  const std::vector<SymbolicTensor>& inputs) {
  check_inputs(layer, inputs);
  if (inputs[0].graph().get() != &graph_) {
    fail_argument(layer.where(), "expected values computed inside '" + layer_.name() +
                                     "', which calls it. Received: values of another graph.");
  }
  adopt(layer);
  CallFrame frame(layer, graph_, context_, mix_keys(key_, ++inner_calls_), losses_);
  return frame.run(inputs);
}

void CallFrame::adopt(const Layer& inner) {
  LayerState& outer = *layer_.state();
  const std::shared_ptr<LayerState>& state = inner.state();
  if (state.get() == &outer) return;
  if (std::find(outer.sublayers.begin(), outer.sublayers.end(), state) != outer.sublayers.end()) {
    return;
  }
  for (const auto& other : outer.sublayers) {
    if (other->name != state->name) continue;
    fail_argument(layer_.where(),
                  fmt::format("expected inner layers with different names. Received: "
                              "'{}' for two of them.",
                              state->name));
  }
  outer.sublayers.push_back(state);
  if (state->path.empty()) state->path = outer.path + "/" + state->name;
  if (!outer.trainable) set_trainable(*state, false);
}

void CallFrame::add_loss(const SymbolicTensor& loss) {
  if (losses_ != nullptr) losses_->push_back(loss);
}

void CallFrame::build(const std::vector<SymbolicTensor>& inputs) {
  if (layer_.bound_) return;
  if (!layer_.built() && dynamic_cast<BuildingGraph*>(&graph_) == nullptr) {
    fail_argument(layer_.where(),
                  "expected to be called also outside of training, so that its variables exist "
                  "before. Received: its first call in a step being compiled.");
  }
  std::vector<Shape> shapes;
  for (const SymbolicTensor& input : inputs) shapes.push_back(input.shape());
  layer_.build_many(shapes);
  layer_.bound_ = true;
  layer_.state()->built = true;
}

std::vector<SymbolicTensor> CallFrame::run(const std::vector<SymbolicTensor>& inputs) {
  const LayerState& state = *layer_.state();
  const ir::TraceScope trace(inputs[0].graph());
  const ir::ScopeGuard scope(graph_,
                             {state.path, state.policy.compute_dtype(), graph_.scope().phase});
  try {
    build(inputs);
    std::vector<SymbolicTensor> outputs = layer_.call_many(inputs, context_);
    check_outputs(layer_, outputs, graph_);
    return outer_ == nullptr ? outputs : mark_layer_outputs(std::move(outputs));
  } catch (const std::invalid_argument& error) {
    const std::string message = error.what();
    if (message.starts_with("[" + layer_.where() + "]") ||
        message.find(" In layer '") != std::string::npos) {
      throw;
    }
    throw std::invalid_argument(message + " In layer '" + state.path + "'.");
  }
}

}  // namespace demi::internal
