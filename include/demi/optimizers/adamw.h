// AdamW: Adam with decoupled weight decay.
#pragma once

#include <demi/optimizers/adam.h>

namespace demi {

/// AdamOptions, but for the default of weight_decay.
struct AdamWOptions {
  LearningRate learning_rate = 1e-3;
  double weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> clipnorm = std::nullopt;
  std::optional<double> clipvalue = std::nullopt;
  std::optional<double> global_clipnorm = std::nullopt;
  bool use_ema = false;
  double ema_momentum = 0.99;
  std::optional<std::int64_t> ema_overwrite_frequency = std::nullopt;
  std::optional<std::int64_t> gradient_accumulation_steps = std::nullopt;
  std::string name = "adamw";
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization" (2017).
class AdamW : public Adam {
 public:
  explicit AdamW(const AdamWOptions& options = {});
  [[nodiscard]] static AdamW from_config(const Config& config);

  [[nodiscard]] std::string class_name() const override { return "AdamW"; }
};

}  // namespace demi
