#include <demi/activations.h>

#include <array>
#include <string_view>

#include <fmt/format.h>

#include <demi/ops/softmax.h>
#include <demi/ops/unary.h>

#include "src/core/check.h"

namespace demi {
namespace {

struct NamedActivation {
  std::string_view name;
  SymbolicTensor (*function)(const SymbolicTensor&);  ///< null: linear
};

constexpr std::array<NamedActivation, 9> kActivations = {{
    {"linear", nullptr},
    {"relu", ops::relu},
    {"sigmoid", ops::sigmoid},
    {"tanh", ops::tanh},
    {"softmax", [](const SymbolicTensor& x) { return ops::softmax(x); }},
    {"log_softmax", [](const SymbolicTensor& x) { return ops::log_softmax(x); }},
    {"gelu", ops::gelu},
    {"softplus", ops::softplus},
    {"exponential", ops::exp},
}};

}  // namespace

ActivationSpec::ActivationSpec(const std::string& name) : name_(name) {
  std::array<std::string_view, kActivations.size()> names;
  std::string valid;
  for (std::size_t i = 0; i < kActivations.size(); ++i) {
    if (kActivations[i].name == name) {
      if (kActivations[i].function != nullptr) function_ = kActivations[i].function;
      return;
    }
    names[i] = kActivations[i].name;
    valid += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  }
  internal::fail_argument("activation", fmt::format("expected one of {}. Received: '{}'.{}", valid,
                                                    name, internal::did_you_mean(name, names)));
}

Config ActivationSpec::get_config() const {
  if (name_ == "custom") {
    internal::fail_argument(
        "activation",
        "expected an activation with a name, which a config can hold. Received: "
        "a function (put it into a layer of your own).");
  }
  return name_;
}

ActivationSpec ActivationSpec::from_config(const Config& config) {
  return config.is_null() ? ActivationSpec() : ActivationSpec(config.as_string());
}

}  // namespace demi
