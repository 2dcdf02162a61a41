// Reshape: the same elements of each sample under another shape.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct ReshapeOptions {
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// x [n, ...] -> [n, ...target_shape].
class Reshape : public LayerOf<Reshape> {
 public:
  /// One extent of `target_shape`, which is without the batch, may be -1: it takes what is left.
  explicit Reshape(const Shape& target_shape, const ReshapeOptions& options = {});
  [[nodiscard]] static Reshape from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  Shape target_shape_;
};

}  // namespace demi
