// The loops of fit, evaluate and predict.
#pragma once

#include <vector>

#include <demi/model.h>
#include <demi/training.h>

#include "src/training/trainer.h"

namespace demi::internal {

/// As Model::fit; `model` is what callbacks see.
[[nodiscard]] History fit(Model model, Trainer& trainer, const Dataset& data,
                          const FitOptions& options);

/// As Model::evaluate.
[[nodiscard]] Logs evaluate(Model model, Trainer& trainer, const Dataset& data,
                            const EvaluateOptions& options);

/// As Model::predict, for each output.
[[nodiscard]] std::vector<Tensor> predict(Trainer& trainer, const Dataset& data,
                                          const PredictOptions& options);

/// One step on all of `data`.
[[nodiscard]] Logs train_on_batch(Trainer& trainer, const Dataset& data);
[[nodiscard]] Logs test_on_batch(Trainer& trainer, const Dataset& data);

}  // namespace demi::internal
