#include "src/layers/layer_config.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include <demi/activations.h>
#include <demi/dtype_policy.h>
#include <demi/initializers.h>

#include "src/core/check.h"

namespace demi::internal {

template <>
bool from_config<bool>(const Config& config) {
  return config.as_bool();
}

template <>
int from_config<int>(const Config& config) {
  return static_cast<int>(config.as_integer());
}

template <>
std::int64_t from_config<std::int64_t>(const Config& config) {
  return config.as_integer();
}

template <>
std::uint64_t from_config<std::uint64_t>(const Config& config) {
  return static_cast<std::uint64_t>(config.as_integer());
}

template <>
double from_config<double>(const Config& config) {
  return config.as_number();
}

template <>
std::string from_config<std::string>(const Config& config) {
  return config.as_string();
}

template <>
Size2D from_config<Size2D>(const Config& config) {
  if (config.is_integer()) return config.as_integer();
  const Config::List& sizes = config.as_list();
  if (sizes.size() != 2) {
    fail_argument("config", fmt::format("expected two extents. Received: {}.", config.to_json()));
  }
  return {sizes[0].as_integer(), sizes[1].as_integer()};
}

template <>
Shape from_config<Shape>(const Config& config) {
  std::vector<std::int64_t> extents;
  for (const Config& extent : config.as_list()) {
    extents.push_back(extent.is_null() ? Shape::kUnknown : extent.as_integer());
  }
  return Shape(extents);
}

template <>
Initializer from_config<Initializer>(const Config& config) {
  return Initializer::from_config(config);
}

template <>
Regularizer from_config<Regularizer>(const Config& config) {
  return Regularizer::from_config(config);
}

template <>
ActivationSpec from_config<ActivationSpec>(const Config& config) {
  return ActivationSpec::from_config(config);
}

template <>
DTypePolicy from_config<DTypePolicy>(const Config& config) {
  if (config.is_string()) return config.as_string();
  return config.at("config").at("name").as_string();
}

void require_channels_last(const Config& config) {
  const Config* format = config.find("data_format");
  if (format == nullptr || format->is_null() || format->as_string() == "channels_last") return;
  fail_argument("config", fmt::format("expected data_format 'channels_last'. Received: '{}'.",
                                      format->as_string()));
}

void require_unset(const Config& config, std::string_view key) {
  const Config* found = config.find(key);
  if (found == nullptr || found->is_null() || *found == Config(false)) return;
  fail_argument("config", fmt::format("expected no {}, which demi does not have. Received: {}.",
                                      key, found->to_json()));
}

Config to_config(const Size2D& size) {
  return Config::integers(to_array(size));
}

Config to_config(const std::optional<Regularizer>& regularizer) {
  return regularizer ? regularizer->get_config() : Config();
}

Config to_config(const Shape& shape) {
  Config::List extents;
  for (const std::int64_t extent : shape) {
    extents.push_back(extent == Shape::kUnknown ? Config() : Config(extent));
  }
  return extents;
}

}  // namespace demi::internal
