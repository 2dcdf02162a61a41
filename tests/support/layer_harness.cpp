#include "tests/support/layer_harness.h"

#include <cstring>

#include <gtest/gtest.h>

#include <demi/layers/input.h>

#include "src/ir/graph.h"
#include "src/layers/layer_registry.h"
#include "src/passes/passes.h"
#include "src/training/compile.h"
#include "src/training/model_impl.h"
#include "tests/support/op_harness.h"

namespace demi::testing {
namespace {

constexpr const char* kPolicies[] = {"float32",  "float64",       "float16",
                                     "bfloat16", "mixed_float16", "mixed_bfloat16"};

std::vector<SymbolicTensor> make_inputs(const LayerCase& layer_case) {
  std::vector<SymbolicTensor> inputs;
  for (const Shape& shape : layer_case.inputs) inputs.push_back(Input(shape));
  return inputs;
}

void expect_config_round_trip(const Layer& layer) {
  const Config config = layer.get_config();
  EXPECT_EQ(config.at("name").as_string(), layer.name());
  const auto copy = internal::make_layer(layer.class_name(), Config::parse(config.to_json()));
  EXPECT_EQ(copy->get_config().to_json(2), config.to_json(2));
  EXPECT_EQ(copy->dtype_policy(), layer.dtype_policy());
}

void expect_variables(const Layer& layer, const LayerCase& layer_case) {
  EXPECT_TRUE(layer.built());
  EXPECT_EQ(layer.trainable_variables().size(), static_cast<std::size_t>(layer_case.trainable));
  EXPECT_EQ(layer.non_trainable_variables().size(),
            static_cast<std::size_t>(layer_case.non_trainable));
  EXPECT_EQ(layer.count_params(), layer_case.params);
  DType dtype = layer.dtype_policy().variable_dtype();
  if (is_half(dtype) && !is_half(layer_case.variable_dtype_of_float16)) {
    dtype = layer_case.variable_dtype_of_float16;
  }
  for (const Variable& variable : layer.variables()) {
    EXPECT_EQ(variable.dtype(), dtype) << variable.name();
    EXPECT_TRUE(variable.name().starts_with(layer.name() + "/")) << variable.name();
  }
}

void expect_traces(const Model& model, const Shape& output, std::int64_t batch, bool training) {
  SCOPED_TRACE("batch " + std::to_string(batch) + (training ? ", training" : ""));
  const TracedGraph traced = trace_for(model, batch, training);
  ir::Graph& graph = *traced.graph;
  graph.add_output("y", traced.traced.outputs.at(0).value());
  ir::verify(graph);
  const SymbolicTensor y = traced.traced.outputs[0];
  EXPECT_EQ(y.shape(), output.with_front(batch));
  passes::autocast(graph);
  ir::verify(graph);
  EXPECT_EQ(y.shape(), output.with_front(batch));
  EXPECT_EQ(y.dtype(), model.impl().graph().output_type(0).dtype);
  passes::simplify(graph);
  ir::verify(graph);
}

/// The dtype in which another layer would read the result.
DType dtype_between_layers(const Model& model) {
  const TracedGraph traced = trace_for(model, 2, false);
  passes::autocast(*traced.graph);
  DType dtype = boolean;
  for (const ir::NodeId id : traced.graph->order()) {
    const ir::Node& node = traced.graph->node(id);
    if (node.op->name == "layer_output") dtype = traced.graph->type(node.outputs[0]).dtype;
  }
  return dtype;
}

}  // namespace

TracedGraph trace_for(const Model& model, std::int64_t batch, bool training) {
  const LayerGraph& layers = model.impl().graph();
  TracedGraph result{ir::Graph::create(), {}};
  result.graph->randomness = {
      7, make_variable_state("steps", Tensor::scalar(std::int64_t{0}), VariableRole::kStepState)};
  std::vector<SymbolicTensor> inputs;
  for (const LayerGraph::Input& input : layers.inputs) {
    TensorType type = layers.type(input.value);
    type.shape.set(0, batch);
    inputs.push_back(result.graph->tensor(result.graph->add_input(input.name, type)));
  }
  result.traced = trace_model(layers, inputs, {.training = training});
  return result;
}

std::string autocast_text(const Model& model, std::int64_t batch, bool training) {
  const TracedGraph traced = trace_for(model, batch, training);
  for (std::size_t i = 0; i < traced.traced.outputs.size(); ++i) {
    traced.graph->add_output("y" + std::to_string(i), traced.traced.outputs[i].value());
  }
  for (const SymbolicTensor& loss : traced.traced.losses) {
    traced.graph->add_output("loss", loss.value());
  }
  passes::autocast(*traced.graph);
  traced.graph->erase_dead();
  return ir::to_string(*traced.graph);
}

Tensor predict(const Model& model, const std::vector<Tensor>& inputs, std::size_t output) {
  StepSpec spec;
  for (const Tensor& input : inputs) spec.inputs.push_back({"x", {input.shape(), input.dtype()}});
  const auto arena = std::make_shared<runtime::Arena>(test_backend(test_device()));
  Program program(spec, plan_step(model.impl().graph(), spec, nullptr, nullptr, arena->backend()),
                  arena);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].bytes() > 0) {
      std::memcpy(program.input(i, 0), inputs[i].raw(), inputs[i].bytes());
    }
  }
  program.run(0);
  return program.output(output);
}

void expect_layer(const LayerCase& layer_case) {
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    const PolicyScope scope(policy);
    const std::shared_ptr<Layer> layer = layer_case.make();
    EXPECT_EQ(layer->dtype_policy(), DTypePolicy(policy));
    EXPECT_FALSE(layer->built());
    expect_config_round_trip(*layer);

    const std::vector<SymbolicTensor> inputs = make_inputs(layer_case);
    const SymbolicTensor y = (*layer)(inputs);
    EXPECT_EQ(y.shape(), layer_case.output.with_front(Shape::kUnknown));
    EXPECT_EQ(y.dtype(), layer->dtype_policy().compute_dtype());
    expect_variables(*layer, layer_case);
    expect_config_round_trip(*layer);

    const Model model(inputs, y);
    EXPECT_EQ(model.layers().size(), 1u);
    for (const bool training : {false, true}) {
      for (const std::int64_t batch : {3, 1, 0}) {
        expect_traces(model, layer_case.output, batch, training);
      }
    }
    EXPECT_EQ(dtype_between_layers(model), layer->dtype_policy().compute_dtype());
  }
}

}  // namespace demi::testing
