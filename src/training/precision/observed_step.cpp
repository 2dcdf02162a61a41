#include "src/training/precision/observed_step.h"

#include <algorithm>
#include <cstring>

#include <demi/optimizers/loss_scale_optimizer.h>

#include "src/core/check.h"

namespace demi::internal {
namespace {

/// The batch size of a program.
std::int64_t rows_of(const Program& program) {
  return program.spec().inputs.at(0).type.shape[0];
}

StepSpec with_rows(StepSpec spec, std::int64_t rows) {
  for (FeedSpec& feed : spec.inputs) feed.type.shape.set(0, rows);
  for (FeedSpec& feed : spec.targets) feed.type.shape.set(0, rows);
  return spec;
}

}  // namespace

ObservedStep::ObservedStep(Trainer& trainer, Precision precision, std::int64_t rows)
    : trainer_(trainer), precision_(precision) {
  DEMI_CHECK(trainer.batch.program != nullptr, "a step is observed while fit is at a batch");
  const std::int64_t batch = rows_of(*trainer.batch.program);
  rows_ = rows > 0 ? std::min(rows, batch) : batch;
  plan_ = plan_observed_step(trainer.model(), with_rows(trainer.batch.program->spec(), rows_),
                             *trainer.training(), trainer.state(), trainer.arena()->backend(),
                             precision);
  executor_ = std::make_unique<runtime::Executor>(plan_.plan, trainer.arena());
  for (const plan::Output& output : plan_.plan->outputs) names_.push_back(output.name);
}

/// The first rows of the batch, from where training reads them too.
void ObservedStep::feed() {
  const auto [program, buffer] = trainer_.batch;
  DEMI_CHECK(program != nullptr && rows_of(*program) >= rows_, "the batch has too few samples");
  const StepSpec& spec = program->spec();
  for (std::size_t i = 0; i < plan_.plan->feeds.size(); ++i) {
    const bool is_input = i < spec.inputs.size();
    const void* from =
        is_input ? program->input(i, buffer) : program->target(i - spec.inputs.size(), buffer);
    const std::size_t bytes = plan_.plan->feeds[i].type.bytes();
    if (bytes > 0) std::memcpy(executor_->feed(i), from, bytes);
  }
}

void ObservedStep::run() {
  feed();
  executor_->run();
}

void ObservedStep::observe(const std::function<void(const ObservedValue&, const Tensor&)>& look) {
  feed();
  const ir::Graph& graph = *plan_.plan->graph;
  executor_->observe([&](const plan::Step& step, std::size_t output, const Tensor& value) {
    const ir::Node& node = graph.node(step.node);
    look({.layer = node.scope.layer,
          .op = node.op->name,
          .phase = node.scope.phase,
          .is_narrow = plan_.narrow.contains(node.outputs[output])},
         value);
    return true;
  });
}

Tensor ObservedStep::gradient(std::size_t index) const {
  Tensor gradient = executor_->output(index);
  const LossScaleOptimizer* scaler = trainer_.loss_scaler();
  gradient = gradient.to(accumulation_dtype(gradient.dtype()));
  if (precision_ == Precision::kFloat32 || scaler == nullptr) return gradient;
  const double factor = 1 / scaler->scale();
  if (gradient.dtype() == DType::kFloat64) {
    for (double& value : gradient.data<double>()) value *= factor;
  } else {
    for (float& value : gradient.data<float>()) value *= static_cast<float>(factor);
  }
  return gradient;
}

}  // namespace demi::internal
