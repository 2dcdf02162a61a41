// GlobalAveragePooling2D: the mean over all positions of an image.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct GlobalAveragePooling2DOptions {
  bool keepdims = false;
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// x [n, h, w, c] -> [n, c], or [n, 1, 1, c] with keepdims; float32 accumulation.
class GlobalAveragePooling2D : public LayerOf<GlobalAveragePooling2D> {
 public:
  explicit GlobalAveragePooling2D(const GlobalAveragePooling2DOptions& options = {});
  [[nodiscard]] static GlobalAveragePooling2D from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  GlobalAveragePooling2DOptions options_;
};

}  // namespace demi
