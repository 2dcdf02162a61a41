// ObservedStep: the forward and backward half of a training step, run to be looked at. Nothing is
// updated.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <demi/tensor.h>

#include "src/training/trainer.h"

namespace demi::internal {

/// A result of a kernel of the step.
struct ObservedValue {
  std::string layer;  ///< path, "" for losses
  std::string op;
  ir::Phase phase = ir::Phase::kForward;
  bool is_narrow = false;  ///< 16 bits wide in training, or would be under mixed_float16
};

/// Shares the trainer's arena and is to be used between two steps of fit.
class ObservedStep {
 public:
  /// Compiled for the first `rows` samples of batches like the one that the trainer is at; 0: all.
  /// Throws what compiling a step throws.
  ObservedStep(Trainer& trainer, Precision precision, std::int64_t rows = 0);

  /// On the batch that the trainer is at, which must have at least rows() samples.
  void run();
  /// The same; shows every floating result as it is made.
  void observe(const std::function<void(const ObservedValue&, const Tensor&)>& look);
  [[nodiscard]] std::int64_t rows() const { return rows_; }

  /// Gradients of the last run by the names of their variables, without the loss scale, float32
  /// (float64 of such a variable).
  [[nodiscard]] const std::vector<std::string>& gradient_names() const { return names_; }
  [[nodiscard]] Tensor gradient(std::size_t index) const;

 private:
  void feed();

  Trainer& trainer_;
  Precision precision_;
  std::int64_t rows_;
  ObservedPlan plan_;
  std::unique_ptr<runtime::Executor> executor_;
  std::vector<std::string> names_;
};

}  // namespace demi::internal
