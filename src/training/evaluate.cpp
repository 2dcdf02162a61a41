#include <cstring>
#include <iostream>
#include <utility>

#include "src/core/check.h"
#include "src/training/dataset/validate.h"
#include "src/training/divergence.h"
#include "src/training/fit.h"
#include "src/training/pass.h"
#include "src/training/progress_bar.h"
#include "src/training/step_specs.h"

namespace demi::internal {
namespace {

/// Everything that is in `data`, into the first buffer.
void fill(Program& program, const Dataset& data) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < data.size(); ++i) rows.push_back(data.row(i));
  for (std::size_t i = 0; i < program.spec().inputs.size(); ++i) {
    gather_rows(data.input(i), rows, program.input(i, 0));
  }
  for (std::size_t i = 0; i < program.spec().targets.size(); ++i) {
    gather_rows(data.target(i), rows, program.target(i, 0));
  }
}

std::shared_ptr<Program> prepare_batch(Trainer& trainer, StepMode mode, const Dataset& data,
                                       const std::string& where) {
  const TrainingSpec& training = trainer.require_training(where);
  check_not_empty(data, where);
  std::shared_ptr<Program> program = trainer.program(mode, data, data.size(), where);
  check_values(trainer.model(), &training, data, /*allow_non_finite=*/false, where);
  fill(*program, data);
  return program;
}

/// `shape` is that of an output for `rows` samples: Shape::kUnknown before there are any.
void check_output_rows(const Shape& shape, std::int64_t rows) {
  if (shape.rank() > 0 && shape[0] == rows) return;
  const std::string extent = rows == Shape::kUnknown ? "None" : std::to_string(rows);
  fail_argument("predict", "expected outputs whose first extent is the number of samples, " +
                               extent + ". Received: " + shape.to_string() + ".");
}

/// The outputs for no samples.
std::vector<Tensor> empty_outputs(const LayerGraph& model) {
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    TensorType type = model.output_type(i);
    check_output_rows(type.shape, Shape::kUnknown);
    type.shape.set(0, 0);
    outputs.emplace_back(type.shape, type.dtype);
  }
  return outputs;
}

}  // namespace

Logs evaluate(Model model, Trainer& trainer, const Dataset& data, const EvaluateOptions& options) {
  const TrainingSpec& training = trainer.require_training("evaluate");
  check_not_empty(data, "evaluate");
  const Pass pass(trainer, StepMode::kEvaluate, data, options.batch_size, 0, "evaluate");
  check_values(trainer.model(), &training, data, /*allow_non_finite=*/false, "evaluate");

  TrainingControl control{.model = &model,
                          .parameters = {.batch_size = options.batch_size,
                                         .samples = data.size(),
                                         .steps_per_epoch = pass.steps(),
                                         .verbose = options.verbose},
                          .status = [&] { return trainer.status(); }};
  const CallbackList callbacks(options.callbacks, &control);
  ProgressBar progress(std::cout, style_of_stdout(options.verbose));
  callbacks.test_begin();
  progress.begin("", pass.steps());
  trainer.reset_evaluate();
  const std::unique_ptr<BatchLoader> loader = pass.load();
  while (const auto batch = loader->next()) {
    pass.program(*batch).run(batch->buffer);
    if (progress.advance(batch->rows)) progress.draw(trainer.evaluate_logs(), {});
  }
  const Logs logs = trainer.evaluate_logs();
  progress.end(logs, {});
  callbacks.test_end(logs);
  return logs;
}

std::vector<Tensor> predict(Trainer& trainer, const Dataset& data, const PredictOptions& options) {
  const Pass pass(trainer, StepMode::kPredict, data, options.batch_size, 0, "predict");
  check_values(trainer.model(), nullptr, data, /*allow_non_finite=*/false, "predict");
  ProgressBar progress(std::cout, style_of_stdout(options.verbose));
  progress.begin("", pass.steps());
  std::vector<Tensor> results;
  const std::unique_ptr<BatchLoader> loader = pass.load();
  while (const auto batch = loader->next()) {
    Program& program = pass.program(*batch);
    program.run(batch->buffer);
    for (std::size_t i = 0; i < trainer.model().outputs.size(); ++i) {
      const Tensor part = program.output(i);
      check_output_rows(part.shape(), batch->rows);
      if (results.size() == i) {
        Shape shape = part.shape();
        shape.set(0, data.size());
        results.emplace_back(shape, part.dtype());
      }
      const std::size_t row_bytes = part.bytes() / static_cast<std::size_t>(batch->rows);
      const auto first_row = static_cast<std::size_t>(batch->index * options.batch_size);
      if (row_bytes > 0) {
        std::memcpy(static_cast<std::byte*>(results[i].raw()) + first_row * row_bytes, part.raw(),
                    part.bytes());
      }
    }
    if (progress.advance(batch->rows)) progress.draw({}, {});
  }
  if (data.empty()) results = empty_outputs(trainer.model());
  progress.end({}, {});
  return results;
}

Logs train_on_batch(Trainer& trainer, const Dataset& data) {
  const std::shared_ptr<Program> program =
      prepare_batch(trainer, StepMode::kTrain, data, "train_on_batch");
  trainer.reset_train();
  trainer.batch = {program.get(), 0};
  trainer.run_batch();
  check_skips(trainer, "train_on_batch");
  trainer.leave_batch();
  return trainer.train_logs();
}

Logs test_on_batch(Trainer& trainer, const Dataset& data) {
  const std::shared_ptr<Program> program =
      prepare_batch(trainer, StepMode::kEvaluate, data, "test_on_batch");
  trainer.reset_evaluate();
  program->run(0);
  return trainer.evaluate_logs();
}

}  // namespace demi::internal
