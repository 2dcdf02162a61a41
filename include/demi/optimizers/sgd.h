// Stochastic gradient descent, with momentum.
#pragma once

#include <demi/optimizers/optimizer_base.h>

namespace demi {

/// Keras' arguments and defaults; those from weight_decay on are explained at OptimizerOptions.
struct SGDOptions {
  LearningRate learning_rate = 0.01;
  double momentum = 0;  ///< in [0, 1]
  bool nesterov = false;
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> clipnorm = std::nullopt;
  std::optional<double> clipvalue = std::nullopt;
  std::optional<double> global_clipnorm = std::nullopt;
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<std::int64_t> ema_overwrite_frequency = std::nullopt;
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
  std::string name = "sgd";
};

/// The formula stands at ops::sgd_update. Slot: momentum, if it is not 0.
class SGD : public OptimizerBase {
 public:
  /// Throws std::invalid_argument for options that are out of range or exclude each other.
  explicit SGD(const SGDOptions& options = {});
  /// From what get_config returns. Throws std::invalid_argument for an unknown option.
  [[nodiscard]] static SGD from_config(const Config& config);

  [[nodiscard]] std::string class_name() const override { return "SGD"; }
  [[nodiscard]] Config get_config() const override;

 protected:
  [[nodiscard]] std::vector<std::string> slot_names() const override;
  void update(const ops::UpdateInputs& inputs, const ops::UpdateAttributes& common) const override;

 private:
  double momentum_;
  bool nesterov_;
};

}  // namespace demi
