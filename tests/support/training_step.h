// TrainingStep: a compiled training step of a given loss, for the tests of optimizers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <demi/optimizers/optimizer.h>
#include <demi/tensor.h>

#include "src/ir/graph.h"
#include "src/runtime/executor.h"

namespace demi::testing {

/// A trainable float32 (by default) variable with the given value.
[[nodiscard]] Variable make_weight(const std::string& name, const Tensor& value);

/// The loss of the weights, read in the compute dtype, and of what is fed.
using LossFunction = std::function<SymbolicTensor(const std::vector<SymbolicTensor>& weights,
                                                  const std::vector<SymbolicTensor>& feeds)>;

/// The sum of weight · feed over all pairs: the gradients are what is fed.
[[nodiscard]] SymbolicTensor linear_loss(const std::vector<SymbolicTensor>& weights,
                                         const std::vector<SymbolicTensor>& feeds);

struct StepOptions {
  /// In which the loss reads the weights and is differentiated.
  DType compute_dtype = DType::kFloat32;
  int threads = 2;
};

/// Compiled like a model's step: autocast, scale_loss, differentiate, apply, simplify, plan.
class TrainingStep {
 public:
  TrainingStep(std::shared_ptr<Optimizer> optimizer, const std::vector<Variable>& weights,
               const std::vector<TensorType>& feeds, const LossFunction& loss = linear_loss,
               StepOptions options = {});

  /// One step. Returns the loss, unscaled.
  double run(const std::vector<Tensor>& feeds);

  /// Whether the last step was applied.
  [[nodiscard]] bool applied() const;
  [[nodiscard]] const ir::Graph& graph() const { return *executor_->plan().graph; }

 private:
  std::unique_ptr<runtime::Executor> executor_;
  bool has_finite_ = false;
};

/// Copies of the variables' values.
[[nodiscard]] std::vector<Tensor> values_of(const std::vector<Variable>& variables);
/// Expects the variables to hold exactly these values.
void expect_values(const std::vector<Variable>& variables, const std::vector<Tensor>& expected,
                   const std::string& what = "");

}  // namespace demi::testing
