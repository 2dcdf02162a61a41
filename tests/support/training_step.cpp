#include "tests/support/training_step.h"

#include <demi/ops/binary.h>
#include <demi/ops/reduction.h>

#include "src/passes/passes.h"
#include "tests/support/compare.h"
#include "tests/support/op_harness.h"

namespace demi::testing {
namespace {

/// The graph of a step; its outputs are the loss and, where the optimizer has one, the finite flag.
std::shared_ptr<ir::Graph> trace_step(Optimizer& optimizer, const std::vector<Variable>& weights,
                                      const std::vector<TensorType>& feeds,
                                      const LossFunction& loss_function, DType compute_dtype) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope trace(graph);
  std::vector<SymbolicTensor> fed;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    fed.push_back(graph->tensor(graph->add_input("feed" + std::to_string(i), feeds[i])));
  }
  SymbolicTensor loss;
  {
    const ir::ScopeGuard scope(*graph, {.layer = "test", .compute_dtype = compute_dtype});
    loss = loss_function({weights.begin(), weights.end()}, fed);
  }
  passes::autocast(*graph);

  optimizer.build(weights);
  std::vector<std::shared_ptr<VariableState>> states;
  for (const Variable& weight : weights) states.push_back(weight.state());
  const auto gradients = passes::differentiate(*graph, optimizer.scale_loss(loss), states);
  const ir::ScopeGuard scope(*graph, {.layer = "", .phase = ir::Phase::kUpdate});
  std::vector<GradientAndVariable> pairs;
  for (std::size_t i = 0; i < weights.size(); ++i) pairs.push_back({gradients[i], weights[i]});
  const UpdateResult result = optimizer.apply(pairs, loss);
  graph->add_output("loss", loss.value());
  if (result.finite) graph->add_output("finite", result.finite.value());
  return graph;
}

}  // namespace

Variable make_weight(const std::string& name, const Tensor& value) {
  return Variable(make_variable_state(name, value, VariableRole::kWeight));
}

SymbolicTensor linear_loss(const std::vector<SymbolicTensor>& weights,
                           const std::vector<SymbolicTensor>& feeds) {
  SymbolicTensor loss;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    const SymbolicTensor term = ops::sum(ops::multiply(weights[i], feeds[i]));
    loss = loss ? ops::add(loss, term) : term;
  }
  return loss;
}

TrainingStep::TrainingStep(std::shared_ptr<Optimizer> optimizer,
                           const std::vector<Variable>& weights,
                           const std::vector<TensorType>& feeds, const LossFunction& loss,
                           StepOptions options) {
  const auto graph = trace_step(*optimizer, weights, feeds, loss, options.compute_dtype);
  const auto backend = test_backend(test_device(), options.threads);
  passes::simplify(*graph);
  passes::fuse(*graph, backend->capabilities());
  passes::simplify(*graph);
  ir::verify(*graph);
  has_finite_ = graph->outputs().size() == 2;
  executor_ = std::make_unique<runtime::Executor>(plan::make_plan(graph, *backend),
                                                  std::make_shared<runtime::Arena>(backend));
}

double TrainingStep::run(const std::vector<Tensor>& feeds) {
  for (std::size_t i = 0; i < feeds.size(); ++i) executor_->set_feed(i, feeds[i]);
  executor_->run();
  return executor_->output(0).item();
}

bool TrainingStep::applied() const {
  return !has_finite_ || executor_->output(1).item() != 0;
}

std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.value());
  return values;
}

void expect_values(const std::vector<Variable>& variables, const std::vector<Tensor>& expected,
                   const std::string& what) {
  for (std::size_t i = 0; i < variables.size(); ++i) {
    expect_identical(variables[i].value(), expected.at(i), what + " " + variables[i].name());
  }
}

}  // namespace demi::testing
