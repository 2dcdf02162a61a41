#include <demi/optimizers/adam.h>
#include <demi/optimizers/adamw.h>

#include <demi/ops/optimizer_update.h>

#include "src/optimizers/options.h"

namespace demi {
namespace {

template <class Options>
Options read_options(const char* where, const Config& config) {
  Options options;
  internal::OptionReader reader(where, config);
  reader.read_common(options);
  reader.read("beta_1", options.beta_1);
  reader.read("beta_2", options.beta_2);
  reader.read("epsilon", options.epsilon);
  reader.read("amsgrad", options.amsgrad);
  reader.finish();
  return options;
}

AdamOptions adam_options(const AdamWOptions& o) {
  return {.learning_rate = o.learning_rate,
          .beta_1 = o.beta_1,
          .beta_2 = o.beta_2,
          .epsilon = o.epsilon,
          .amsgrad = o.amsgrad,
          .weight_decay = o.weight_decay,
          .clipnorm = o.clipnorm,
          .clipvalue = o.clipvalue,
          .global_clipnorm = o.global_clipnorm,
          .use_ema = o.use_ema,
          .ema_momentum = o.ema_momentum,
          .ema_overwrite_frequency = o.ema_overwrite_frequency,
          .gradient_accumulation_steps = o.gradient_accumulation_steps,
          .name = o.name};
}

}  // namespace

Adam::Adam(const AdamOptions& options)
    : OptimizerBase(internal::common_options(options)),
      beta_1_(options.beta_1),
      beta_2_(options.beta_2),
      epsilon_(options.epsilon),
      amsgrad_(options.amsgrad) {
  using internal::check_option;
  check_option(beta_1_ >= 0 && beta_1_ < 1, name(), "beta_1", "in [0, 1)", beta_1_);
  check_option(beta_2_ >= 0 && beta_2_ < 1, name(), "beta_2", "in [0, 1)", beta_2_);
  check_option(epsilon_ >= 0, name(), "epsilon", ">= 0", epsilon_);
}

Adam Adam::from_config(const Config& config) {
  return Adam(read_options<AdamOptions>("adam", config));
}

Config Adam::get_config() const {
  return OptimizerBase::get_config()
      .set("beta_1", beta_1_)
      .set("beta_2", beta_2_)
      .set("epsilon", epsilon_)
      .set("amsgrad", amsgrad_);
}

std::vector<std::string> Adam::slot_names() const {
  if (amsgrad_) return {"momentum", "velocity", "velocity_hat"};
  return {"momentum", "velocity"};
}

void Adam::update(const ops::UpdateInputs& inputs, const ops::UpdateAttributes& common) const {
  ops::adam_update(inputs, {.common = common,
                            .beta_1 = beta_1_,
                            .beta_2 = beta_2_,
                            .epsilon = epsilon_,
                            .amsgrad = amsgrad_});
}

AdamW::AdamW(const AdamWOptions& options) : Adam(adam_options(options)) {}

AdamW AdamW::from_config(const Config& config) {
  return AdamW(read_options<AdamWOptions>("adamw", config));
}

}  // namespace demi
