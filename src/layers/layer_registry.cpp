#include "src/layers/layer_registry.h"

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <demi/layers/activation.h>
#include <demi/layers/add.h>
#include <demi/layers/average_pooling2d.h>
#include <demi/layers/batch_normalization.h>
#include <demi/layers/concatenate.h>
#include <demi/layers/conv2d.h>
#include <demi/layers/dense.h>
#include <demi/layers/dropout.h>
#include <demi/layers/flatten.h>
#include <demi/layers/global_average_pooling2d.h>
#include <demi/layers/max_pooling2d.h>
#include <demi/layers/relu.h>
#include <demi/layers/reshape.h>
#include <demi/layers/softmax.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"
#include "src/layers/layer_state.h"

namespace demi {
namespace {

using MakeLayer = std::function<std::shared_ptr<Layer>(const Config&)>;

template <class L>
std::shared_ptr<Layer> make(const Config& config) {
  return std::make_shared<L>(L::from_config(config));
}

using LayerMap = std::map<std::string, MakeLayer, std::less<>>;

const LayerMap& built_in_layers() {
  static const LayerMap layers = {
      {"Activation", make<Activation>},
      {"Add", make<Add>},
      {"AveragePooling2D", make<AveragePooling2D>},
      {"BatchNormalization", make<BatchNormalization>},
      {"Concatenate", make<Concatenate>},
      {"Conv2D", make<Conv2D>},
      {"Dense", make<Dense>},
      {"Dropout", make<Dropout>},
      {"Flatten", make<Flatten>},
      {"GlobalAveragePooling2D", make<GlobalAveragePooling2D>},
      {"MaxPooling2D", make<MaxPooling2D>},
      {"ReLU", make<ReLU>},
      {"Reshape", make<Reshape>},
      {"Softmax", make<Softmax>},
  };
  return layers;
}

struct Registry {
  std::mutex mutex;
  LayerMap layers = built_in_layers();
};

Registry& registry() {
  static Registry instance;
  return instance;
}

MakeLayer find_layer(const std::string& class_name) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.layers.find(class_name);
  if (found != all.layers.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, unused] : all.layers) names.push_back(name);
  internal::fail_argument(
      "from_json",
      fmt::format(
          "expected one of {}, or a class registered with register_layer. Received: '{}'.{}",
          fmt::join(names, ", "), class_name, internal::did_you_mean(class_name, names)));
}

}  // namespace

void register_layer(const std::string& class_name,
                    std::function<std::shared_ptr<Layer>(const Config&)> make) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (class_name.empty() || !all.layers.emplace(class_name, std::move(make)).second) {
    internal::fail_argument(
        "register_layer",
        fmt::format("expected the name of a class that is not registered yet. Received: '{}'.",
                    class_name));
  }
}

namespace internal {

bool is_built_in_layer(const std::string& class_name) {
  return built_in_layers().count(class_name) > 0;
}

std::shared_ptr<Layer> make_layer(const std::string& class_name, const Config& config) {
  const std::shared_ptr<Layer> layer = find_layer(class_name)(config);
  if (layer == nullptr || layer->class_name() != class_name) {
    fail_argument("from_json",
                  fmt::format("expected the registered function of '{}' to make such a layer. "
                              "Received: {}.",
                              class_name, layer == nullptr ? "none" : layer->class_name()));
  }
  LayerState& state = *layer->state();
  bool trainable = state.trainable;
  std::optional<DTypePolicy> policy;
  read(config, "name", state.name);
  read(config, "dtype", policy);
  read(config, "trainable", trainable);
  check_name(state.name, "from_json");
  if (policy) state.policy = *policy;
  set_trainable(state, trainable);
  return layer;
}

}  // namespace internal
}  // namespace demi
