#include <algorithm>
#include <list>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <demi/layers/input.h>
#include <demi/model.h>

#include "src/core/check.h"
#include "src/layers/layer_config.h"
#include "src/layers/layer_registry.h"
#include "src/training/model_impl.h"

namespace demi {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  internal::fail_argument("from_json", message);
}

SymbolicTensor make_input(const Config& config) {
  const Config* shape = config.find("batch_shape");
  if (shape == nullptr) shape = &config.at("batch_input_shape");
  const Shape batch_shape = internal::from_config<Shape>(*shape);
  if (batch_shape.rank() < 1) refuse("expected an input shape with a batch. Received: a scalar.");
  internal::require_unset(config, "sparse");
  internal::require_unset(config, "ragged");
  const Config* dtype = config.find("dtype");
  return Input(
      batch_shape.without_front(),
      {.name = config.at("name").as_string(),
       .dtype = dtype == nullptr || dtype->is_null() ? float32 : parse_dtype(dtype->as_string())});
}

std::shared_ptr<Layer> make_layer(const Config& object) {
  const Config* module = object.find("module");
  if (module != nullptr && module->is_string() &&
      module->as_string().find(".ops.") != std::string::npos) {
    refuse(fmt::format("expected layers. Received: the operation '{}' of {}.",
                       object.at("class_name").as_string(), module->as_string()));
  }
  // Keras puts a package in front of the names of registered classes: "Custom>Scale".
  std::string class_name = object.at("class_name").as_string();
  class_name = class_name.substr(class_name.find('>') + 1);
  return internal::make_layer(class_name, object.at("config"));
}

/// The values of `arguments` that name results of layers, in order.
void collect_histories(const Config& argument, std::vector<Config>& histories) {
  if (argument.is_list()) {
    for (const Config& value : argument.as_list()) collect_histories(value, histories);
  } else if (argument.is_object()) {
    const Config* kind = argument.find("class_name");
    if (kind == nullptr || *kind != Config("__keras_tensor__")) {
      refuse(fmt::format("expected results of layers as arguments. Received: {}.",
                         argument.to_json()));
    }
    histories.push_back(argument.at("config").at("keras_history"));
  } else {
    refuse(
        fmt::format("expected results of layers as arguments. Received: {}.", argument.to_json()));
  }
}

class Reader {
 public:
  explicit Reader(const Config& config) {
    std::list<PendingCall> pending;
    for (const Config& object : config.at("layers").as_list()) add_layer(object, pending);
    // Calls stand with their layers, not in the order in which they can be made. Taking the first
    // that can be made keeps the layers in their order.
    while (!pending.empty()) {
      const auto next = std::find_if(pending.begin(), pending.end(),
                                     [&](const PendingCall& call) { return make_call(call); });
      if (next == pending.end()) {
        refuse(
            fmt::format("expected calls that can be made one after another. Received: calls of "
                        "'{}' and others that need each other or missing layers.",
                        pending.front().layer->name()));
      }
      pending.erase(next);
    }
  }

  /// The values that "input_layers" or "output_layers" lists: one place or several.
  [[nodiscard]] SymbolicTensors values(const Config& places) const {
    const Config::List& list = places.as_list();
    if (!list.empty() && list[0].is_string()) return find_or_refuse(places);
    std::vector<SymbolicTensor> values;
    for (const Config& place : list) values.push_back(find_or_refuse(place));
    return values;
  }

 private:
  struct PendingCall {
    std::shared_ptr<Layer> layer;
    std::size_t number = 0;  ///< among the calls of this layer
    std::vector<Config> inputs;
  };

  void add_layer(const Config& object, std::list<PendingCall>& pending) {
    if (object.at("class_name").as_string() == "InputLayer") {
      const SymbolicTensor input = make_input(object.at("config"));
      results_[object.at("config").at("name").as_string()] = {{input}};
      return;
    }
    const std::shared_ptr<Layer> layer = make_layer(object);
    results_.try_emplace(layer->name());
    std::size_t number = 0;
    for (const Config& node : object.at("inbound_nodes").as_list()) {
      for (const auto& [name, value] : node.at("kwargs").entries()) {
        // Keras notes "training": false where it only means that the model decides.
        if (value.is_null() || (name == "training" && value == Config(false))) continue;
        refuse(fmt::format("expected calls without keyword arguments. Received: {} = {} of '{}'.",
                           name, value.to_json(), layer->name()));
      }
      PendingCall call{layer, number++, {}};
      collect_histories(node.at("args"), call.inputs);
      pending.push_back(std::move(call));
    }
  }

  bool make_call(const PendingCall& call) {
    auto& results = results_.at(call.layer->name());
    if (results.size() != call.number) return false;
    std::vector<SymbolicTensor> inputs;
    for (const Config& place : call.inputs) {
      const std::optional<SymbolicTensor> value = find(place);
      if (!value) return false;
      inputs.push_back(*value);
    }
    results.push_back(call.layer->apply(inputs));
    return true;
  }

  [[nodiscard]] std::optional<SymbolicTensor> find(const Config& place) const {
    const Config::List& parts = place.as_list();
    if (parts.size() != 3) {
      refuse(fmt::format("expected [layer, call, result]. Received: {}.", place.to_json()));
    }
    const auto found = results_.find(parts[0].as_string());
    if (found == results_.end()) {
      refuse(fmt::format("expected a layer of the model. Received: '{}'.", parts[0].as_string()));
    }
    const auto call = static_cast<std::size_t>(parts[1].as_integer());
    const auto result = static_cast<std::size_t>(parts[2].as_integer());
    if (call >= found->second.size()) return std::nullopt;
    if (result >= found->second[call].size()) {
      refuse(fmt::format("expected a result of the call. Received: {}.", place.to_json()));
    }
    return found->second[call][result];
  }

  [[nodiscard]] SymbolicTensor find_or_refuse(const Config& place) const {
    const std::optional<SymbolicTensor> value = find(place);
    if (!value) refuse(fmt::format("expected a call of the model. Received: {}.", place.to_json()));
    return *value;
  }

  /// By layer name, call and result.
  std::map<std::string, std::vector<std::vector<SymbolicTensor>>> results_;
};

Model read_functional(const Config& config) {
  const Reader reader(config);
  return {reader.values(config.at("input_layers")),
          reader.values(config.at("output_layers")),
          {.name = config.at("name").as_string()}};
}

Model read_sequential(const Config& config) {
  Sequential model({}, {.name = config.at("name").as_string()});
  for (const Config& object : config.at("layers").as_list()) {
    if (object.at("class_name").as_string() == "InputLayer") {
      model.add(make_input(object.at("config")));
    } else {
      model.add(make_layer(object));
    }
  }
  const Config* shape = config.find("build_input_shape");
  if (!model.built() && shape != nullptr && !shape->is_null()) {
    model.build(internal::from_config<Shape>(*shape));
  }
  return model;
}

}  // namespace

Model Model::from_json(std::string_view json) {
  const Config object = Config::parse(json);
  const std::string& class_name = object.at("class_name").as_string();
  const Config& config = object.at("config");
  if (class_name == "Sequential") return read_sequential(config);
  if (class_name == "Functional" || class_name == "Model") return read_functional(config);
  refuse(fmt::format("expected a Sequential or Functional model. Received: '{}'.", class_name));
}

}  // namespace demi
