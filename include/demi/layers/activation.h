// Activation: a function applied to every element (or, for softmax, along the last axis).
#pragma once

#include <optional>
#include <string>

#include <demi/activations.h>
#include <demi/layer.h>

namespace demi {

struct ActivationOptions {
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// activation(x), of x's shape.
class Activation : public LayerOf<Activation> {
 public:
  explicit Activation(ActivationSpec activation, const ActivationOptions& options = {});
  [[nodiscard]] static Activation from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  ActivationSpec activation_;
};

}  // namespace demi
