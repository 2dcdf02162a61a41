#include <demi/optimizers/sgd.h>

#include <demi/ops/optimizer_update.h>

#include "src/optimizers/options.h"

namespace demi {

SGD::SGD(const SGDOptions& options)
    : OptimizerBase(internal::common_options(options)),
      momentum_(options.momentum),
      nesterov_(options.nesterov) {
  internal::check_option(momentum_ >= 0 && momentum_ <= 1, name(), "momentum", "in [0, 1]",
                         momentum_);
}

SGD SGD::from_config(const Config& config) {
  SGDOptions options;
  internal::OptionReader reader("sgd", config);
  reader.read_common(options);
  reader.read("momentum", options.momentum);
  reader.read("nesterov", options.nesterov);
  reader.finish();
  return SGD(options);
}

Config SGD::get_config() const {
  return OptimizerBase::get_config().set("momentum", momentum_).set("nesterov", nesterov_);
}

std::vector<std::string> SGD::slot_names() const {
  if (momentum_ == 0) return {};
  return {"momentum"};
}

void SGD::update(const ops::UpdateInputs& inputs, const ops::UpdateAttributes& common) const {
  ops::sgd_update(inputs, {.common = common, .momentum = momentum_, .nesterov = nesterov_});
}

}  // namespace demi
