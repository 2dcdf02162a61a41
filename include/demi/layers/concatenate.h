// Concatenate: several values side by side along one axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <demi/layer.h>

namespace demi {

struct ConcatenateOptions {
  int axis = -1;
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// ops::concatenate: `demi::Concatenate()({a, b})`.
class Concatenate : public LayerOf<Concatenate> {
 public:
  explicit Concatenate(const ConcatenateOptions& options = {});
  [[nodiscard]] static Concatenate from_config(const Config& config);

  std::vector<SymbolicTensor> call_many(const std::vector<SymbolicTensor>& inputs,
                                        const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  ConcatenateOptions options_;
};

}  // namespace demi
