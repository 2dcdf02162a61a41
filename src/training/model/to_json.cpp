// Architectures in the form in which Keras 3 writes them.
//
// A layer is {"module", "class_name", "config", "registered_name"}; in a functional model also
// "name" and, for each call, an entry of "inbound_nodes" whose arguments name the values they are
// as [layer name, number of the layer's call, number of the result].
#include <map>
#include <utility>

#include <fmt/format.h>

#include <demi/model.h>

#include "src/core/check.h"
#include "src/layers/keras_object.h"
#include "src/layers/layer_config.h"
#include "src/layers/layer_registry.h"
#include "src/training/model_impl.h"

namespace demi {
namespace {

using internal::keras_object;

Config describe_input(const std::string& name, const TensorType& type) {
  return keras_object("keras.layers", "InputLayer",
                      Config::object({{"batch_shape", internal::to_config(type.shape)},
                                      {"dtype", std::string(to_string(type.dtype))},
                                      {"sparse", false},
                                      {"ragged", false},
                                      {"name", name}}));
}

Config describe_layer(const Layer& layer) {
  const bool is_built_in = internal::is_built_in_layer(layer.class_name());
  Config object = keras_object("keras.layers", layer.class_name(), layer.get_config());
  if (!is_built_in) object.set("module", nullptr).set("registered_name", layer.class_name());
  return object;
}

/// Writes the calls of a functional model.
class Writer {
 public:
  explicit Writer(const LayerGraph& graph) : graph_(graph) {
    for (const LayerGraph::Input& input : graph.inputs) {
      places_[input.value] = {input.name, 0, 0};
    }
    for (const LayerGraph::Call& call : graph.calls) add(call);
  }

  [[nodiscard]] Config layers() const {
    Config::List list;
    for (const LayerGraph::Input& input : graph_.inputs) {
      list.push_back(describe_input(input.name, graph_.type(input.value))
                         .set("name", input.name)
                         .set("inbound_nodes", Config::List{}));
    }
    for (const auto& layer : graph_.layers) {
      list.push_back(describe_layer(*layer)
                         .set("name", layer->name())
                         .set("inbound_nodes", nodes_.at(layer->name())));
    }
    return list;
  }

  [[nodiscard]] Config place(LayerGraph::ValueIndex value) const {
    const Place& place = places_.at(value);
    return Config::List{place.layer, place.call, place.result};
  }

 private:
  struct Place {
    std::string layer;
    int call = 0;
    int result = 0;
  };

  void add(const LayerGraph::Call& call) {
    if (call.layer == nullptr) {
      internal::fail_argument(
          "to_json",
          fmt::format("expected layers alone; put ops into a layer of your own. Received: "
                      "'{}' used outside of layers.",
                      call.op->name));
    }
    Config::List& nodes = nodes_[call.layer->name()];
    const int number = static_cast<int>(nodes.size());
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      places_[call.outputs[i]] = {call.layer->name(), number, static_cast<int>(i)};
    }
    Config::List arguments;
    for (const int input : call.inputs) arguments.push_back(argument(input));
    const bool several = arguments.size() > 1;
    nodes.push_back(Config::object(
        {{"args", several ? Config::List{Config(std::move(arguments))} : std::move(arguments)},
         {"kwargs", Config::object()}}));
  }

  [[nodiscard]] Config argument(LayerGraph::ValueIndex value) const {
    const TensorType& type = graph_.type(value);
    return Config::object({{"class_name", "__keras_tensor__"},
                           {"config", Config::object({{"shape", internal::to_config(type.shape)},
                                                      {"dtype", std::string(to_string(type.dtype))},
                                                      {"keras_history", place(value)}})}});
  }

  const LayerGraph& graph_;
  std::map<LayerGraph::ValueIndex, Place> places_;
  std::map<std::string, Config::List> nodes_;
};

Config describe_functional(const ModelImpl& model) {
  const LayerGraph& graph = model.graph();
  const Writer writer(graph);
  // One place stands for itself, several in a list.
  const auto places = [&](const auto& ends) -> Config {
    if (ends.size() == 1) return writer.place(ends[0].value);
    Config::List list;
    for (const auto& end : ends) list.push_back(writer.place(end.value));
    return list;
  };
  return keras_object("keras.src.models.functional", "Functional",
                      Config::object({{"name", model.name},
                                      {"trainable", true},
                                      {"layers", writer.layers()},
                                      {"input_layers", places(graph.inputs)},
                                      {"output_layers", places(graph.outputs)}}))
      .set("registered_name", "Functional");
}

Config describe_sequential(const ModelImpl& model) {
  Config::List layers;
  Config config = Config::object({{"name", model.name}, {"trainable", true}});
  if (model.sequence_input) {
    layers.push_back(describe_input(model.input_name, *model.sequence_input));
  }
  for (const auto& layer : model.sequence) layers.push_back(describe_layer(*layer));
  config.set("layers", std::move(layers));
  if (model.sequence_input) {
    config.set("build_input_shape", internal::to_config(model.sequence_input->shape));
  }
  return keras_object("keras", "Sequential", std::move(config));
}

}  // namespace

std::string Model::to_json(int indent) const {
  const Config config =
      impl_->is_sequential ? describe_sequential(*impl_) : describe_functional(*impl_);
  return config.to_json(indent);
}

}  // namespace demi
