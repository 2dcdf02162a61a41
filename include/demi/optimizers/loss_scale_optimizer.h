// LossScaleOptimizer: keeps float16 gradients in range.
//
// The loss is multiplied by a scale before it is differentiated, so that small gradients do not
// become 0 in float16. The wrapped optimizer divides by it again, before anything else it does. If
// the loss or a gradient is not finite, the step is skipped: nothing changes but the scale and the
// counters here. Everything happens on the device; a step never waits for the host.
//
// Invariants: 2^-14 <= scale <= 2^24. A skipped step does not count in iterations(), and so
// advances neither a schedule nor Adam's bias correction nor gradient accumulation.
#pragma once

#include <demi/optimizers/optimizer_base.h>

namespace demi {

struct LossScaleOptions {
  double initial_scale = 32768;              ///< in [2^-14, 2^24]; the scale if not `dynamic`
  std::int64_t dynamic_growth_steps = 2000;  ///< finite steps until the scale doubles
  bool dynamic = true;                       ///< halve on a non-finite step, double in time
  std::int64_t max_consecutive_skips = 50;   ///< after so many, training stops with an error
  std::string name = "loss_scale_optimizer";

  // These belong to the wrapped optimizer; setting one here throws std::invalid_argument.
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> clipnorm = std::nullopt;
  std::optional<double> clipvalue = std::nullopt;
  std::optional<double> global_clipnorm = std::nullopt;
  std::optional<bool> use_ema = std::nullopt;
  std::optional<double> ema_momentum = std::nullopt;
  std::optional<std::int64_t> ema_overwrite_frequency = std::nullopt;
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
};

class LossScaleOptimizer : public Optimizer {
 public:
  /// Throws std::invalid_argument for options out of range, an absent optimizer, or one that scales
  /// the loss already.
  explicit LossScaleOptimizer(const OptimizerSpec& inner, const LossScaleOptions& options = {});
  /// From what get_config returns. Throws std::invalid_argument for an unknown option.
  [[nodiscard]] static LossScaleOptimizer from_config(const Config& config);

  [[nodiscard]] const std::shared_ptr<OptimizerBase>& inner() const { return inner_; }

  /// The scale of the next step. Waits for the device, as do the functions below.
  [[nodiscard]] double scale() const;
  /// Finite steps since the scale last changed.
  [[nodiscard]] std::int64_t good_steps() const;
  /// All steps skipped so far.
  [[nodiscard]] std::int64_t skipped_steps() const;
  /// Steps skipped since the last one that was not.
  [[nodiscard]] std::int64_t consecutive_skips() const;
  [[nodiscard]] std::int64_t max_consecutive_skips() const;

  [[nodiscard]] const std::string& name() const override;
  void build(const std::vector<Variable>& trainable) override { inner_->build(trainable); }
  /// loss · scale, in float32 (float64 for a float64 loss).
  [[nodiscard]] SymbolicTensor scale_loss(const SymbolicTensor& loss) override;
  /// Also throws if scale_loss has not been called for this graph.
  UpdateResult apply(const std::vector<GradientAndVariable>& gradients,
                     const SymbolicTensor& loss) override;

  [[nodiscard]] std::vector<Variable> variables() const override;
  [[nodiscard]] std::int64_t iterations() const override { return inner_->iterations(); }
  [[nodiscard]] double learning_rate() const override { return inner_->learning_rate(); }
  void set_learning_rate(double value) override { inner_->set_learning_rate(value); }
  void finalize_variable_values() override { inner_->finalize_variable_values(); }

  [[nodiscard]] std::string class_name() const override { return "LossScaleOptimizer"; }
  [[nodiscard]] Config get_config() const override;

 private:
  struct State;
  std::shared_ptr<OptimizerBase> inner_;
  std::shared_ptr<State> state_;
};

}  // namespace demi
