// The half of Model that trains: compile, fit, evaluate, predict, checkpoints.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <demi/model.h>

#include "src/core/check.h"
#include "src/training/checkpoint.h"
#include "src/training/fit.h"
#include "src/training/model_impl.h"
#include "src/training/trainer.h"

namespace demi {
namespace {

/// The trainer, made now if the model has become ready for it since compile().
Trainer& ready_trainer(ModelImpl& model) {
  if (!model.trainer) {
    model.trainer = std::make_shared<Trainer>(
        model.graph(), model.compile_options ? *model.compile_options : CompileOptions());
  }
  return *model.trainer;
}

/// The same, after a Sequential without an Input has been built for `data`.
Trainer& ready_trainer(ModelImpl& model, const Dataset& data) {
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < data.input_count(); ++i) {
    types.push_back({data.input(i).shape(), DType::kFloat32});
  }
  if (!model.layer_graph && types.empty()) {
    internal::fail_argument("model " + model.name,
                            "expected data to build the model for. Received: no arrays.");
  }
  if (!model.layer_graph) model.ensure_built(types);
  return ready_trainer(model);
}

Trainer& compiled_trainer(ModelImpl& model, const std::string& where) {
  Trainer& trainer = ready_trainer(model);
  (void)trainer.require_training(where);
  return trainer;
}

}  // namespace

void Model::compile(const CompileOptions& options) {
  impl_->trainer.reset();
  impl_->compile_options = std::make_shared<const CompileOptions>(options);
  if (impl_->layer_graph) (void)ready_trainer(*impl_);
}

History Model::fit(const Dataset& data, const FitOptions& options) {
  return internal::fit(*this, ready_trainer(*impl_, data), data, options);
}

History Model::fit(const Tensor& x, const Tensor& y, const FitOptions& options) {
  return fit(Dataset::view(x, y), options);
}

Logs Model::evaluate(const Dataset& data, const EvaluateOptions& options) {
  return internal::evaluate(*this, ready_trainer(*impl_, data), data, options);
}

Logs Model::evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options) {
  return evaluate(Dataset::view(x, y), options);
}

Tensor Model::predict(const Dataset& data, const PredictOptions& options) {
  std::vector<Tensor> outputs = predict_all(data, options);
  if (outputs.size() != 1) {
    internal::fail_argument("predict", "expected a model with one output. Received: one with " +
                                           std::to_string(outputs.size()) + "; use predict_all.");
  }
  return std::move(outputs[0]);
}

Tensor Model::predict(const Tensor& x, const PredictOptions& options) {
  return predict(Dataset::view(x), options);
}

std::vector<Tensor> Model::predict_all(const Dataset& data, const PredictOptions& options) {
  return internal::predict(ready_trainer(*impl_, data), data, options);
}

Logs Model::train_on_batch(const Dataset& batch) {
  return internal::train_on_batch(ready_trainer(*impl_, batch), batch);
}

Logs Model::train_on_batch(const Tensor& x, const Tensor& y) {
  return train_on_batch(Dataset::view(x, y));
}

Logs Model::test_on_batch(const Dataset& batch) {
  return internal::test_on_batch(ready_trainer(*impl_, batch), batch);
}

Logs Model::test_on_batch(const Tensor& x, const Tensor& y) {
  return test_on_batch(Dataset::view(x, y));
}

void Model::save_checkpoint(const std::string& path) const {
  internal::save_checkpoint(path, impl_->graph().named_variables(),
                            compiled_trainer(*impl_, "save_checkpoint"));
}

TrainingPosition Model::load_checkpoint(const std::string& path) {
  Trainer& trainer = compiled_trainer(*impl_, "load_checkpoint");
  internal::load_checkpoint(path, impl_->graph().named_variables(), trainer);
  return trainer.position;
}

Optimizer& Model::optimizer() const {
  return *compiled_trainer(*impl_, "optimizer").training()->optimizer;
}

TrainingStatus Model::training_status() const {
  return compiled_trainer(*impl_, "training_status").status();
}

MemoryPlan Model::memory_plan(std::int64_t batch_size, const MemoryPlanOptions& options) const {
  const bool has_data = options.data.input_count() > 0;
  const Trainer& trainer = has_data ? ready_trainer(*impl_, options.data) : ready_trainer(*impl_);
  return trainer.memory_plan(batch_size, options, "memory_plan");
}

PrecisionPlan Model::precision_report(std::int64_t batch_size,
                                      const MemoryPlanOptions& options) const {
  const bool has_data = options.data.input_count() > 0;
  const Trainer& trainer = has_data ? ready_trainer(*impl_, options.data) : ready_trainer(*impl_);
  return trainer.precision_report(batch_size, options, "precision_report");
}

std::string Model::device() const {
  return ready_trainer(*impl_).device();
}

}  // namespace demi
