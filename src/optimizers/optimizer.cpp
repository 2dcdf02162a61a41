// The optimizers by name.

#include <demi/optimizers/optimizer.h>

#include <algorithm>
#include <cctype>

#include <demi/optimizers/adam.h>
#include <demi/optimizers/adamw.h>
#include <demi/optimizers/loss_scale_optimizer.h>
#include <demi/optimizers/sgd.h>
#include <fmt/format.h>

#include "src/core/check.h"

namespace demi {
namespace {

struct OptimizerClass {
  const char* name;
  std::shared_ptr<Optimizer> (*make)(const Config& config);
  bool has_defaults;  ///< can be made from its name alone
};

template <class T>
std::shared_ptr<Optimizer> make(const Config& config) {
  return std::make_shared<T>(T::from_config(config));
}

constexpr OptimizerClass kClasses[] = {
    {"Adam", make<Adam>, true},
    {"AdamW", make<AdamW>, true},
    {"SGD", make<SGD>, true},
    {"LossScaleOptimizer", make<LossScaleOptimizer>, false},
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

OptimizerSpec::OptimizerSpec(const char* name) : OptimizerSpec(std::string(name)) {}

OptimizerSpec::OptimizerSpec(const std::string& name) {
  std::vector<std::string> names;
  for (const OptimizerClass& known : kClasses) {
    if (!known.has_defaults) continue;
    names.push_back(lower(known.name));
    if (lower(name) == names.back()) optimizer_ = known.make(Config::object());
  }
  if (optimizer_ == nullptr) {
    internal::fail_argument(
        "optimizer", fmt::format("expected one of {}. Received: '{}'.{}", fmt::join(names, ", "),
                                 name, internal::did_you_mean(lower(name), names)));
  }
}

Config optimizer_to_config(const Optimizer& optimizer) {
  return Config::object(
      {{"class_name", optimizer.class_name()}, {"config", optimizer.get_config()}});
}

std::shared_ptr<Optimizer> optimizer_from_config(const Config& config) {
  const std::string& name = config.at("class_name").as_string();
  std::vector<std::string> names;
  for (const OptimizerClass& known : kClasses) {
    if (name == known.name) return known.make(config.at("config"));
    names.emplace_back(known.name);
  }
  internal::fail_argument(
      "optimizer", fmt::format("expected one of the classes {}. Received: '{}'.{}",
                               fmt::join(names, ", "), name, internal::did_you_mean(name, names)));
}

}  // namespace demi
