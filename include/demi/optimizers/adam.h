// Adam.
#pragma once

#include <demi/optimizers/optimizer_base.h>

namespace demi {

/// Keras' arguments and defaults; those from weight_decay on are explained at OptimizerOptions.
struct AdamOptions {
  LearningRate learning_rate = 1e-3;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;  ///< added to the square root of the second moment
  bool amsgrad = false;   ///< divide by the largest second moment so far
  std::optional<double> weight_decay = std::nullopt;
  std::optional<double> clipnorm = std::nullopt;
  std::optional<double> clipvalue = std::nullopt;
  std::optional<double> global_clipnorm = std::nullopt;
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<std::int64_t> ema_overwrite_frequency = std::nullopt;
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
  std::string name = "adam";
};

/// The formula stands at ops::adam_update. Slots: momentum, velocity (and velocity_hat).
class Adam : public OptimizerBase {
 public:
  /// Throws std::invalid_argument for options that are out of range or exclude each other.
  explicit Adam(const AdamOptions& options = {});
  /// From what get_config returns. Throws std::invalid_argument for an unknown option.
  [[nodiscard]] static Adam from_config(const Config& config);

  [[nodiscard]] std::string class_name() const override { return "Adam"; }
  [[nodiscard]] Config get_config() const override;

 protected:
  [[nodiscard]] std::vector<std::string> slot_names() const override;
  void update(const ops::UpdateInputs& inputs, const ops::UpdateAttributes& common) const override;

 private:
  double beta_1_;
  double beta_2_;
  double epsilon_;
  bool amsgrad_;
};

}  // namespace demi
