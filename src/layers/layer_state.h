// LayerState: what all copies of a layer share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <demi/dtype_policy.h>
#include <demi/regularizers.h>
#include <demi/variable.h>

namespace demi::internal {

struct Weight {
  std::string name;  ///< within the layer
  Variable variable;
  std::optional<Regularizer> regularizer;
  bool trainable = true;  ///< as asked for, whether or not the layer is frozen
};

struct LayerState {
  std::string class_name;
  std::string name;
  /// Names from the outermost layer to this one; empty until the first call or weight.
  std::string path;
  DTypePolicy policy;
  bool trainable = true;
  bool built = false;
  std::uint64_t seed = 0;  ///< of initial weights and random streams
  std::vector<Weight> weights;
  /// Layers called inside this one, in the order of their first call.
  std::vector<std::shared_ptr<LayerState>> sublayers;
};

/// Calls `visit` for every weight of the layer, then of its inner layers.
void for_each_weight(const LayerState& layer,
                     const std::function<void(const LayerState&, const Weight&)>& visit);

/// Freezes or thaws a layer with all its inner layers.
void set_trainable(LayerState& layer, bool trainable);

/// "max_pooling2d" of "MaxPooling2D", as Keras forms it.
[[nodiscard]] std::string snake_case(std::string_view class_name);

/// "dense", then "dense_1", … for each prefix.
[[nodiscard]] std::string unique_name(const std::string& prefix);

/// Throws std::invalid_argument for a name with '/', which separates layers in paths.
void check_name(const std::string& name, const std::string& where);

/// The seed of the layer being constructed: a function of the global seed and of the number of
/// layers constructed since it was set.
[[nodiscard]] std::uint64_t next_layer_seed();

/// Two keys made into one; different pairs give, for all practical purposes, different keys.
[[nodiscard]] std::uint64_t mix_keys(std::uint64_t a, std::uint64_t b);
[[nodiscard]] std::uint64_t hash_name(std::string_view name);

}  // namespace demi::internal
