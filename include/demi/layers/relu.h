// ReLU: rectified linear unit with Keras' variations.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct ReLUOptions {
  std::optional<double> max_value = std::nullopt;  ///< nullopt: unlimited
  double negative_slope = 0;
  double threshold = 0;
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// x where x > threshold, at most max_value; elsewhere negative_slope · (x - threshold).
class ReLU : public LayerOf<ReLU> {
 public:
  /// Throws std::invalid_argument for a negative argument.
  explicit ReLU(const ReLUOptions& options = {});
  [[nodiscard]] static ReLU from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  ReLUOptions options_;
};

}  // namespace demi
