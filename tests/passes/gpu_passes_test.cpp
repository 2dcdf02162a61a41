// The passes that only backends with the capabilities of a GPU ask for: printed text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/conv2d.h>
#include <demi/ops/cross_entropy.h>
#include <demi/ops/loss_scale.h>
#include <demi/ops/matmul.h>
#include <demi/ops/movement.h>
#include <demi/ops/optimizer_update.h>
#include <demi/ops/pooling.h>
#include <demi/ops/reduction.h>
#include <demi/ops/softmax.h>
#include <demi/ops/state.h>
#include <demi/ops/unary.h>
#include <demi/variable.h>

#include "src/ir/emit.h"
#include "src/passes/passes.h"
#include "tests/support/golden.h"
#include "tests/support/op_harness.h"

namespace demi::passes {
namespace {

using demi::testing::expect_golden;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Capabilities kGpu = {.conv2d_bias_activation = true,
                               .matmul_bias_activation = true,
                               .batch_norm_relu = true,
                               .max_pool_relu = true,
                               .max_pool_bias_gradient = true,
                               .matmul_bias_gradient = true,
                               .matmul_relu_backward = true,
                               .mean_sparse_cross_entropy = true,
                               .weight_copies = true,
                               .ohwi_filters = true};

Variable variable(const std::string& name, const Tensor& value,
                  VariableRole role = VariableRole::kWeight) {
  return Variable(make_variable_state(name, value, role));
}

/// A small classifier in float16: convolution, pooling, two dense layers.
struct Classifier {
  std::shared_ptr<ir::Graph> graph = ir::Graph::create();
  std::shared_ptr<ir::TraceScope> trace = std::make_shared<ir::TraceScope>(graph);
  std::vector<Variable> weights;
  SymbolicTensor loss, accuracy;

  Variable weight(const std::string& name, const Shape& shape) {
    weights.push_back(variable(name, demi::testing::random_tensor(shape, float32, 1, -0.3, 0.3)));
    return weights.back();
  }
  SymbolicTensor input(const std::string& name, const Shape& shape, DType dtype) {
    return graph->tensor(graph->add_input(name, {shape, dtype}));
  }

  /// The forward half with the weights `given`, or with new ones.
  explicit Classifier(const std::vector<Variable>& given = {}) {
    if (given.empty()) {
      weight("filter", {3, 3, 2, 8});
      weight("bias", {8});
      weight("hidden", {32, 6});
      weight("hidden_bias", {6});
      weight("out", {6, 3});
      weight("out_bias", {3});
    } else {
      weights = given;
    }
    // In order: the graph shows in which one they are first read.
    const std::vector<SymbolicTensor> w(weights.begin(), weights.end());
    const SymbolicTensor x = input("x", {4, 6, 6, 2}, float16);
    const SymbolicTensor labels = input("labels", {4}, int32);
    SymbolicTensor logits;
    {
      const ir::ScopeGuard scope(*graph, {.layer = "layer", .compute_dtype = float16});
      const SymbolicTensor image = ops::relu(ops::add(ops::conv2d(x, w[0]), w[1]));
      const SymbolicTensor pooled = ops::reshape(ops::max_pool2d(image).first, {4, 32});
      const SymbolicTensor h = ops::relu(ops::add(ops::matmul(pooled, w[2]), w[3]));
      logits = ops::add(ops::matmul(h, w[4]), w[5]);
    }
    const SymbolicTensor p = ops::softmax(ops::cast(logits, float32));
    loss = ops::mean(ops::sparse_categorical_crossentropy(labels, p));
    accuracy = ops::mean(ops::cast(ops::equal(ops::argmax(p), labels), float32));
    use_logits(*graph);
    autocast(*graph);
  }

  /// The backward half and an update like that of a scaled loss.
  void train() {
    const Variable scale = variable("scale", Tensor::scalar(8.0F), VariableRole::kStepState);
    const Variable rate = variable("rate", Tensor::scalar(0.1F), VariableRole::kStepState);
    const Variable steps =
        variable("steps", Tensor::scalar(std::int64_t{0}), VariableRole::kStepState);
    std::vector<std::shared_ptr<VariableState>> states;
    for (const Variable& weight : weights) states.push_back(weight.state());
    const auto gradients = differentiate(*graph, ops::multiply(loss, scale), states);
    const ir::ScopeGuard scope(*graph, {.layer = "", .phase = ir::Phase::kUpdate});
    ops::UpdateInputs inputs;
    inputs.learning_rate = rate;
    inputs.apply = ops::all_finite(gradients);
    inputs.inverse_scale = ops::reciprocal(scale);
    inputs.iterations = steps;
    inputs.variables = {weights.begin(), weights.end()};
    inputs.gradients = gradients;
    ops::sgd_update(inputs, {});
  }

  std::string optimised(const Capabilities& capabilities) {
    graph->add_output("loss", loss.value());
    graph->add_output("accuracy", accuracy.value());
    simplify(*graph);
    keep_weight_copies(*graph, capabilities);
    fuse(*graph, capabilities);
    simplify(*graph);
    verify(*graph);
    return to_string(*graph);
  }
};

TEST(GpuPasses, LeaveATrainingStepFewNodes) {
  Classifier classifier;
  classifier.train();
  expect_golden("passes/gpu_training.txt", classifier.optimised(kGpu));
}

TEST(KeepWeightCopies, LetsEvaluationReadTheCopiesThatTrainingMade) {
  Classifier training;
  training.train();
  EXPECT_THAT(training.optimised(kGpu), HasSubstr("copies=0ᵀ 1 2 3 4 5"));
  Classifier evaluation(training.weights);
  expect_golden("passes/gpu_evaluation.txt", evaluation.optimised(kGpu));
}

TEST(KeepWeightCopies, MakesNoneForAStepThatOnlyReads) {
  Classifier evaluation;
  const std::string text = evaluation.optimised(kGpu);
  EXPECT_THAT(text, HasSubstr("cast"));
  EXPECT_THAT(text, Not(HasSubstr("ohwi")));
  EXPECT_TRUE(evaluation.weights[0].state()->copies.empty());
}

TEST(KeepWeightCopies, ConvertsAfterWhateverElseOverwritesAWeight) {
  Classifier training;
  training.train();
  (void)training.optimised(kGpu);
  const Variable filter = training.weights[0];
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  const SymbolicTensor value = graph->tensor(graph->add_input("value", {filter.shape(), float32}));
  const SymbolicTensor always = ir::emit_constant(value, 1, boolean);
  const SymbolicTensor variable = filter;
  ops::assign(variable, value, always);
  keep_weight_copies(*graph, kGpu);
  verify(*graph);
  expect_golden("passes/gpu_assign.txt", to_string(*graph));
}

TEST(KeepWeightCopies, KeepsTheLayoutOfAGradientThatSomebodyElseReads) {
  Classifier training;
  training.train();
  ir::Graph& graph = *training.graph;
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).op->name != "conv2d_backward_filter") continue;
    graph.add_output("gradient", graph.node(id).outputs[0]);
  }
  const std::string text = training.optimised(kGpu);
  EXPECT_THAT(text, HasSubstr("conv2d_backward_filter(%"));
  EXPECT_THAT(text, Not(HasSubstr("transposed_gradients")));
}

TEST(GpuPasses, DoNothingWithoutTheirCapabilities) {
  Classifier training;
  training.train();
  const std::string text = training.optimised({});
  for (const char* made : {"ohwi", "copies", "mean_sparse", "bias_gradient", "relu_backward}"}) {
    EXPECT_THAT(text, Not(HasSubstr(made)));
  }
  EXPECT_TRUE(training.weights[0].state()->copies.empty());
}

}  // namespace
}  // namespace demi::passes
