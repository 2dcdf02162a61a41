// Add: the sum of several values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <demi/layer.h>

namespace demi {

struct AddOptions {
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// Element by element, with broadcasting: `demi::Add()({a, b})`.
class Add : public LayerOf<Add> {
 public:
  explicit Add(const AddOptions& options = {});
  [[nodiscard]] static Add from_config(const Config& config);

  std::vector<SymbolicTensor> call_many(const std::vector<SymbolicTensor>& inputs,
                                        const CallContext& context) override;
};

}  // namespace demi
