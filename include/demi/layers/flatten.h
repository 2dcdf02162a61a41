// Flatten: one row per sample.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct FlattenOptions {
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// x [n, ...] -> [n, product of the rest]; [n] -> [n, 1].
class Flatten : public LayerOf<Flatten> {
 public:
  explicit Flatten(const FlattenOptions& options = {});
  [[nodiscard]] static Flatten from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;
};

}  // namespace demi
