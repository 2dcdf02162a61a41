#include "src/layers/layer_graph.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "src/layers/layer_state.h"

namespace demi {
namespace {

using internal::LayerState;

/// The kind that an automatic name counts: "dense" of "dense_7". The name itself if it is not of
/// that form.
bool is_automatic(const LayerState& layer) {
  const std::string kind = internal::snake_case(layer.class_name);
  if (!layer.name.starts_with(kind)) return false;
  const std::string_view rest = std::string_view(layer.name).substr(kind.size());
  if (rest.empty()) return true;
  return rest.size() > 1 && rest[0] == '_' && std::all_of(rest.begin() + 1, rest.end(), [](char c) {
           return std::isdigit(static_cast<unsigned char>(c)) != 0;
         });
}

class VariableNames {
 public:
  void visit(const std::string& prefix, const std::vector<std::shared_ptr<LayerState>>& siblings) {
    std::set<std::string> taken;
    for (const auto& layer : siblings) {
      if (!is_automatic(*layer)) taken.insert(layer->name);
    }
    std::map<std::string, int> counts;
    for (const auto& layer : siblings) {
      std::string name = layer->name;
      if (is_automatic(*layer)) {
        const std::string kind = internal::snake_case(layer->class_name);
        do {
          const int count = counts[kind]++;
          name = count == 0 ? kind : kind + "_" + std::to_string(count);
        } while (!taken.insert(name).second);
      }
      for (const internal::Weight& weight : layer->weights) {
        if (!seen_.insert(weight.variable.state().get()).second) continue;
        names_.emplace_back(prefix + name + "/" + weight.name, weight.variable);
      }
      visit(prefix + name + "/", layer->sublayers);
    }
  }

  std::vector<std::pair<std::string, Variable>> take() { return std::move(names_); }

 private:
  std::set<const VariableState*> seen_;
  std::vector<std::pair<std::string, Variable>> names_;
};

}  // namespace

TensorType LayerGraph::output_type(std::size_t i) const {
  TensorType result = type(outputs[i].value);
  if (is_floating(result.dtype)) result.dtype = promote(result.dtype, float32);
  return result;
}

std::vector<Variable> LayerGraph::variables() const {
  std::vector<Variable> result;
  std::set<const VariableState*> seen;
  for (const auto& layer : layers) {
    for (const Variable& variable : layer->variables()) {
      if (seen.insert(variable.state().get()).second) result.push_back(variable);
    }
  }
  return result;
}

std::vector<Variable> LayerGraph::trainable_variables() const {
  std::vector<Variable> result = variables();
  std::erase_if(result, [](const Variable& variable) { return !variable.trainable(); });
  return result;
}

std::vector<Variable> LayerGraph::non_trainable_variables() const {
  std::vector<Variable> result = variables();
  std::erase_if(result, [](const Variable& variable) { return variable.trainable(); });
  return result;
}

std::vector<std::pair<std::string, Variable>> LayerGraph::named_variables() const {
  std::vector<std::shared_ptr<LayerState>> states;
  for (const auto& layer : layers) states.push_back(layer->state());
  VariableNames names;
  names.visit("", states);
  return names.take();
}

}  // namespace demi
