// Layers by class name, for models that come from JSON.
#pragma once

#include <memory>
#include <string>

#include <demi/config.h>
#include <demi/layer.h>

namespace demi::internal {

/// A new layer of a built-in or registered class from what its get_config returned. Throws
/// std::invalid_argument, with a suggestion, for an unknown class.
[[nodiscard]] std::shared_ptr<Layer> make_layer(const std::string& class_name,
                                                const Config& config);

/// Whether the class is one of demi's, which Keras knows too.
[[nodiscard]] bool is_built_in_layer(const std::string& class_name);

}  // namespace demi::internal
