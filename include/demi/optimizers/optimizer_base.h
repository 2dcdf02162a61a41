// OptimizerBase: what all update rules have in common.
//
// The order within one update, all in float32 (float64 for float64 variables): unscale, clip,
// weight decay, update, moving average of the weights. With gradient accumulation, unscaled
// gradients are summed over gradient_accumulation_steps steps, and the update uses their mean.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/optimizers/optimizer.h>
#include <demi/schedules.h>

namespace demi {

namespace ops {
struct UpdateInputs;
struct UpdateAttributes;
}  // namespace ops

/// Options of every optimizer, with Keras' meaning. At most one kind of clipping.
struct OptimizerOptions {
  LearningRate learning_rate = 1e-3;
  std::optional<double> weight_decay = std::nullopt;  ///< decoupled: w -= w · weight_decay · rate
  std::optional<double> clipnorm = std::nullopt;      ///< largest norm of each gradient
  std::optional<double> clipvalue = std::nullopt;     ///< largest magnitude of each element
  std::optional<double> global_clipnorm = std::nullopt;  ///< largest norm of all gradients together
  bool use_ema = false;  ///< keep a moving average of the weights, one update after the other
  double ema_momentum = 0.99;
  /// Replace the weights by their averages after so many updates. nullopt: only at the end of fit.
  std::optional<std::int64_t> ema_overwrite_frequency = std::nullopt;
  /// Steps whose gradients make one update. nullopt: 1.
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
  std::string name = {};
};

/// What an optimizer that wraps another passes on.
struct UpdateControls {
  SymbolicTensor inverse_scale;  ///< float32 scalar that gradients are multiplied by; empty: 1
  SymbolicTensor apply;          ///< bool scalar: false leaves everything as it is; empty: true
};

class OptimizerBase : public Optimizer {
 public:
  [[nodiscard]] const std::string& name() const override;
  void build(const std::vector<Variable>& trainable) override;
  UpdateResult apply(const std::vector<GradientAndVariable>& gradients,
                     const SymbolicTensor& loss) override;
  /// `apply` for optimizers that wrap this one.
  void apply_controlled(const std::vector<GradientAndVariable>& gradients,
                        const UpdateControls& controls);

  [[nodiscard]] std::vector<Variable> variables() const override;
  [[nodiscard]] std::int64_t iterations() const override;
  [[nodiscard]] double learning_rate() const override;
  void set_learning_rate(double value) override;
  void finalize_variable_values() override;
  [[nodiscard]] Config get_config() const override;

  /// Leaves the variables of `excluded`, and those whose names contain one of `excluded_names`,
  /// without weight decay. Throws std::invalid_argument after `build`.
  void exclude_from_weight_decay(const std::vector<Variable>& excluded,
                                 const std::vector<std::string>& excluded_names = {});

 protected:
  /// Throws std::invalid_argument for options that are out of range or exclude each other.
  explicit OptimizerBase(OptimizerOptions options);

  // --- what an optimizer overrides, besides class_name and get_config ---

  /// Names of the slots each variable gets, "momentum". They start as zeros, float32 (float64 for
  /// float64 variables).
  [[nodiscard]] virtual std::vector<std::string> slot_names() const = 0;
  /// Writes the update nodes for the variables that have gradients; `common` goes into the
  /// attributes of the update op.
  virtual void update(const ops::UpdateInputs& inputs,
                      const ops::UpdateAttributes& common) const = 0;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace demi
