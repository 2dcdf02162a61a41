#include <demi/plan.h>

#include "kernels/backend.h"
#include "src/core/check.h"
#include "src/training/compile.h"
#include "src/training/memory/describe_memory.h"
#include "src/training/model_impl.h"
#include "src/training/step_specs.h"
#include "src/training/trainer.h"

namespace demi {
namespace {

PlannedCall describe_call(const ir::Graph& graph, const plan::Step& step) {
  const ir::Node& node = graph.node(step.node);
  const std::string attributes = node.attributes.to_string();
  PlannedCall call;
  call.layer = node.scope.layer;
  call.phase = ir::to_string(node.scope.phase);
  call.op = std::string(node.op->name) + (attributes.empty() ? "" : " {" + attributes + "}");
  call.kernel = step.kernel->description();
  call.workspace_bytes = step.kernel->workspace_bytes();
  for (const ir::ValueId value : node.inputs) {
    call.inputs.push_back(graph.type(value).to_string());
  }
  for (const ir::ValueId value : node.outputs) {
    call.outputs.push_back(graph.type(value).to_string());
  }
  for (const KernelSelection::Refusal& refusal : step.refusals) {
    call.refused.push_back(refusal.candidate + ": " + refusal.reason);
  }
  return call;
}

}  // namespace

int PlannedStep::launches() const {
  int sum = 0;
  for (const PlannedCall& call : calls) sum += call.launches;
  return sum;
}

PlannedStep plan_training_step(const Model& model, const Dataset& data,
                               const CompileOptions& options, const PlanOptions& plan_options) {
  if (plan_options.batch_size < 1) {
    internal::fail_argument("plan", "expected a batch size >= 1. Received: " +
                                        std::to_string(plan_options.batch_size) + ".");
  }
  const LayerGraph& graph = model.impl().graph();
  const std::shared_ptr<Backend> backend = plan_options.device_profile.empty()
                                               ? make_backend(options.device, options.threads)
                                               : make_planning_backend(plan_options.device_profile);
  const TrainingSpec training = make_training_spec(graph, options);
  const StepState state = make_step_state(training);
  const StepSpec spec = internal::make_step_spec(graph, &training, StepMode::kTrain, data,
                                                 plan_options.batch_size, 0, "plan");
  const auto plan = plan_step(graph, spec, &training, &state, *backend);

  PlannedStep planned;
  planned.device = backend->name();
  std::vector<Kernel*> kernels;
  for (const plan::Step& step : plan->steps) kernels.push_back(step.kernel.get());
  const std::vector<int> launches = backend->launch_counts(kernels);
  for (std::size_t i = 0; i < plan->steps.size(); ++i) {
    planned.calls.push_back(describe_call(*plan->graph, plan->steps[i]));
    planned.calls.back().launches = launches[i];
  }
  planned.memory =
      internal::describe_memory(graph, spec, *plan, training.optimizer.get(), backend->name());
  return planned;
}

}  // namespace demi
