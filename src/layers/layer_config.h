// Reading and writing the options of layers as configs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <demi/config.h>
#include <demi/layers/size2d.h>
#include <demi/regularizers.h>
#include <demi/shape.h>

namespace demi::internal {

/// What a config describes. Defined for bool, int, std::int64_t, std::uint64_t, double,
/// std::string, Size2D (a number or two), Shape (null: unknown), Initializer, Regularizer,
/// ActivationSpec and DTypePolicy. Throws std::invalid_argument for a config of another kind.
template <class T>
[[nodiscard]] T from_config(const Config& config);

/// Sets `value` from the key of a layer's config and leaves it as it is where the key is absent.
template <class T>
void read(const Config& config, std::string_view key, T& value) {
  if (const Config* found = config.find(key)) value = from_config<T>(*found);
}
/// null stands for nullopt.
template <class T>
void read(const Config& config, std::string_view key, std::optional<T>& value) {
  const Config* found = config.find(key);
  if (found == nullptr) return;
  value = found->is_null() ? std::nullopt : std::optional<T>(from_config<T>(*found));
}

/// "name", "dtype" and "trainable" of any layer's options.
template <class Options>
void read_common(const Config& config, Options& options) {
  read(config, "name", options.name);
  read(config, "dtype", options.dtype);
  read(config, "trainable", options.trainable);
}

/// Throws std::invalid_argument unless data_format is absent, null or "channels_last".
void require_channels_last(const Config& config);
/// Throws std::invalid_argument if the key holds anything but null or false: what demi does not do.
void require_unset(const Config& config, std::string_view key);

[[nodiscard]] Config to_config(const Size2D& size);
[[nodiscard]] Config to_config(const std::optional<Regularizer>& regularizer);
/// null for unknown extents.
[[nodiscard]] Config to_config(const Shape& shape);

/// {height, width}, as ops take it.
[[nodiscard]] constexpr std::array<std::int64_t, 2> to_array(const Size2D& size) {
  return {size.height, size.width};
}

}  // namespace demi::internal
