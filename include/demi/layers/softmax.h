// Softmax: exponentials along an axis, divided by their sum.
#pragma once

#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct SoftmaxOptions {
  int axis = -1;
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// ops::softmax(x, axis), computed in at least float32.
class Softmax : public LayerOf<Softmax> {
 public:
  explicit Softmax(const SoftmaxOptions& options = {});
  [[nodiscard]] static Softmax from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  SoftmaxOptions options_;
};

}  // namespace demi
