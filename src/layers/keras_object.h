// How Keras 3 writes an object into JSON.
#pragma once

#include <string>
#include <utility>

#include <demi/config.h>

namespace demi::internal {

/// {"module": …, "class_name": …, "config": …, "registered_name": null}
[[nodiscard]] inline Config keras_object(const char* module, std::string class_name,
                                         Config config) {
  return Config::object({{"module", module},
                         {"class_name", std::move(class_name)},
                         {"config", std::move(config)},
                         {"registered_name", nullptr}});
}

}  // namespace demi::internal
