// MaxPooling2D: the maximum of each window.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>
#include <demi/layers/size2d.h>

namespace demi {

struct MaxPooling2DOptions {
  Size2D pool_size = 2;
  std::optional<Size2D> strides = std::nullopt;  ///< nullopt: pool_size
  std::string padding = "valid";                 ///< or "same"
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// x [n, h, w, c] -> [n, oh, ow, c] as ops::max_pool2d.
class MaxPooling2D : public LayerOf<MaxPooling2D> {
 public:
  /// Throws std::invalid_argument for sizes or strides below 1 or an unknown padding.
  explicit MaxPooling2D(const MaxPooling2DOptions& options = {});
  [[nodiscard]] static MaxPooling2D from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  MaxPooling2DOptions options_;
};

}  // namespace demi
