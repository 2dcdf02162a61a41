#include <demi/regularizers.h>

#include <array>
#include <cmath>

#include <fmt/format.h>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>

#include "src/core/check.h"
#include "src/ir/emit.h"
#include "src/layers/keras_object.h"

namespace demi {
namespace {

Regularizer find_regularizer(const std::string& name) {
  if (name == "l1" || name == "L1") return regularizers::L1();
  if (name == "l2" || name == "L2") return regularizers::L2();
  if (name == "l1_l2" || name == "L1L2") return regularizers::L1L2();
  constexpr std::array<std::string_view, 3> kNames = {"l1", "l2", "l1_l2"};
  internal::fail_argument(
      "regularizer", fmt::format("expected one of 'l1', 'l2', 'l1_l2'. Received: '{}'.{}", name,
                                 internal::did_you_mean(name, kNames)));
}

}  // namespace

Regularizer::Regularizer(const std::string& name) : Regularizer(find_regularizer(name)) {}

Regularizer::Regularizer(std::string class_name, double l1, double l2)
    : class_name_(std::move(class_name)), l1_(l1), l2_(l2) {
  for (const double factor : {l1, l2}) {
    if (std::isfinite(factor) && factor >= 0) continue;
    internal::fail_argument("regularizer",
                            fmt::format("expected factors >= 0. Received: {}.", factor));
  }
}

SymbolicTensor Regularizer::operator()(const SymbolicTensor& x) const {
  const SymbolicTensor wide = ops::cast(x, promote(x.dtype(), float32));
  SymbolicTensor penalty;
  if (l1_ != 0) penalty = ops::multiply(ops::sum(ops::abs(wide)), l1_);
  if (l2_ != 0) {
    const SymbolicTensor squares = ops::multiply(ops::sum(ops::square(wide)), l2_);
    penalty = penalty ? ops::add(penalty, squares) : squares;
  }
  return penalty ? penalty : ir::emit_constant(wide, 0, wide.dtype());
}

Config Regularizer::get_config() const {
  Config config = Config::object();
  if (class_name_ != "L2") config.set("l1", l1_);
  if (class_name_ != "L1") config.set("l2", l2_);
  return internal::keras_object("keras.regularizers", class_name_, std::move(config));
}

Regularizer Regularizer::from_config(const Config& config) {
  if (config.is_string()) return Regularizer(config.as_string());
  Regularizer regularizer(config.at("class_name").as_string());
  const Config& options = config.at("config");
  const auto read = [&](const char* key, double fallback) {
    const Config* found = options.find(key);
    return found != nullptr ? found->as_number() : fallback;
  };
  return {regularizer.class_name_, read("l1", regularizer.l1_), read("l2", regularizer.l2_)};
}

}  // namespace demi
