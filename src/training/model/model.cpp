#include <demi/model.h>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/layers/layer_state.h"
#include "src/training/model_impl.h"

namespace demi {

const LayerGraph& ModelImpl::graph() const {
  if (!layer_graph) {
    internal::fail_argument(
        name,
        "expected a model whose input is known; begin it with demi::Input, or call "
        "build or fit. Received: layers alone.");
  }
  return *layer_graph;
}

Model::Model(const SymbolicTensors& inputs, const SymbolicTensors& outputs,
             const ModelOptions& options)
    : impl_(std::make_shared<ModelImpl>()) {
  impl_->layer_graph = extract_layer_graph(inputs, outputs);
  impl_->name = options.name.empty() ? internal::unique_name("functional") : options.name;
}

const std::string& Model::name() const {
  return impl_->name;
}

bool Model::built() const {
  return impl_->layer_graph.has_value();
}

const std::vector<std::shared_ptr<Layer>>& Model::layers() const {
  return impl_->is_sequential ? impl_->sequence : impl_->graph().layers;
}

const std::shared_ptr<Layer>& Model::get_layer(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& layer : layers()) {
    if (layer->name() == name) return layer;
    names.push_back(layer->name());
  }
  internal::fail_argument(
      "get_layer", fmt::format("expected one of {}. Received: '{}'.{}", fmt::join(names, ", "),
                               name, internal::did_you_mean(name, names)));
}

std::vector<Variable> Model::variables() const {
  return impl_->graph().variables();
}

std::vector<Variable> Model::trainable_variables() const {
  return impl_->graph().trainable_variables();
}

std::vector<Variable> Model::non_trainable_variables() const {
  return impl_->graph().non_trainable_variables();
}

std::int64_t Model::count_params() const {
  std::int64_t count = 0;
  for (const Variable& variable : variables()) count += variable.shape().elements();
  return count;
}

}  // namespace demi
