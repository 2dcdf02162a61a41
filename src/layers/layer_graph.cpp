#include "src/layers/layer_graph.h"

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "src/layers/layer_state.h"

namespace demi {
namespace {

using internal::LayerState;

/// The number of a name of the automatic form: 0 of "dense", 7 of "dense_7"; none of any other.
std::optional<std::int64_t> automatic_number(const LayerState& layer) {
  const std::string kind = internal::snake_case(layer.class_name);
  if (!layer.name.starts_with(kind)) return std::nullopt;
  const std::string_view rest = std::string_view(layer.name).substr(kind.size());
  if (rest.empty()) return 0;
  std::int64_t number = 0;
  const char* end = rest.data() + rest.size();
  const auto [parsed, error] = std::from_chars(rest.data() + 1, end, number);
  // No two names have the same number: "dense_07" is none of them.
  if (rest[0] != '_' || rest.size() < 2 || rest[1] == '0' || error != std::errc() ||
      parsed != end) {
    return std::nullopt;
  }
  return number;
}

class VariableNames {
 public:
  void visit(const std::string& prefix, const std::vector<std::shared_ptr<LayerState>>& siblings) {
    const std::map<const LayerState*, std::string> names = names_of(siblings);
    for (const auto& layer : siblings) {
      const std::string path = prefix + names.at(layer.get()) + "/";
      for (const internal::Weight& weight : layer->weights) {
        if (!seen_.insert(weight.variable.state().get()).second) continue;
        names_.emplace_back(path + weight.name, weight.variable);
      }
      visit(path, layer->sublayers);
    }
  }

  std::vector<std::pair<std::string, Variable>> take() { return std::move(names_); }

 private:
  /// Automatic names keep their order, which is that of creation, but not their gaps.
  static std::map<const LayerState*, std::string> names_of(
      const std::vector<std::shared_ptr<LayerState>>& siblings) {
    std::map<const LayerState*, std::string> names;
    std::set<std::string> taken;
    std::map<std::pair<std::string, std::int64_t>, const LayerState*> automatic;
    for (const auto& layer : siblings) {
      const std::optional<std::int64_t> number = automatic_number(*layer);
      if (number) {
        automatic[{internal::snake_case(layer->class_name), *number}] = layer.get();
      } else {
        names[layer.get()] = layer->name;
        taken.insert(layer->name);
      }
    }
    std::map<std::string, int> counts;
    for (const auto& [kind_and_number, layer] : automatic) {
      const std::string& kind = kind_and_number.first;
      std::string& name = names[layer];
      do {
        const int count = counts[kind]++;
        name = count == 0 ? kind : kind + "_" + std::to_string(count);
      } while (!taken.insert(name).second);
    }
    return names;
  }

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
