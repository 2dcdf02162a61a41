// Dropout: sets a random share of the values to zero in training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <demi/layer.h>

namespace demi {

struct DropoutOptions {
  double rate = 0.5;                                 ///< share of values dropped, in [0, 1]
  std::optional<std::uint64_t> seed = std::nullopt;  ///< nullopt: from set_random_seed
  std::string name = {};
  std::optional<DTypePolicy> dtype = std::nullopt;
  bool trainable = true;
};

/// In training ops::dropout with numbers that depend on the seed, the layer, the call and the step;
/// otherwise x.
class Dropout : public LayerOf<Dropout> {
 public:
  /// Throws std::invalid_argument for a rate outside [0, 1].
  explicit Dropout(const DropoutOptions& options);
  explicit Dropout(double rate) : Dropout(DropoutOptions{.rate = rate}) {}
  [[nodiscard]] static Dropout from_config(const Config& config);

  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override;
  [[nodiscard]] Config get_config() const override;

 private:
  DropoutOptions options_;
};

}  // namespace demi
