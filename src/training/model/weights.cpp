// The values of a model's variables: in memory and in files.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <demi/model.h>

#include "src/core/check.h"
#include "src/io/safetensors.h"
#include "src/training/model_impl.h"

namespace demi {
namespace {

std::string quoted(const std::vector<std::string>& names) {
  return "'" + fmt::format("{}", fmt::join(names, "', '")) + "'";
}

/// Says at once everything by which the tensors of a file differ from the model's variables.
void check_same(const std::string& path,
                const std::vector<std::pair<std::string, Variable>>& variables,
                const io::TensorMap& tensors) {
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  std::set<std::string> known;
  for (const auto& [name, variable] : variables) {
    known.insert(name);
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      missing.push_back(name);
    } else if (found->second.shape() != variable.shape() || !is_floating(found->second.dtype())) {
      wrong.push_back(fmt::format(
          "'{}' is {} in the model and {} in the file", name, variable.shape().to_string(),
          TensorType{found->second.shape(), found->second.dtype()}.to_string()));
    }
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, tensor] : tensors) {
    if (known.count(name) == 0) unexpected.push_back(name);
  }
  if (missing.empty() && unexpected.empty() && wrong.empty()) return;
  std::vector<std::string> mistakes = wrong;
  if (!missing.empty()) mistakes.push_back("missing from the file: " + quoted(missing));
  if (!unexpected.empty()) mistakes.push_back("unknown to the model: " + quoted(unexpected));
  internal::fail_argument(
      "load_weights", fmt::format("expected the weights of this model in {}. Received: {}.", path,
                                  fmt::join(mistakes, "; ")));
}

}  // namespace

std::vector<Tensor> Model::get_weights() const {
  std::vector<Tensor> weights;
  for (const Variable& variable : variables()) weights.push_back(variable.value());
  return weights;
}

void Model::set_weights(const std::vector<Tensor>& weights) {
  const std::vector<Variable> variables = this->variables();
  if (weights.size() != variables.size()) {
    internal::fail_argument("set_weights", fmt::format("expected {} tensors. Received: {}.",
                                                       variables.size(), weights.size()));
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (weights[i].shape() == variables[i].shape()) continue;
    internal::fail_argument(
        "set_weights",
        fmt::format("expected '{}' of shape {}. Received: {}.", variables[i].name(),
                    variables[i].shape().to_string(), weights[i].shape().to_string()));
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    variables[i].assign(weights[i].to(variables[i].dtype()));
  }
}

void Model::save_weights(const std::string& path) const {
  io::TensorMap tensors;
  for (const auto& [name, variable] : impl_->graph().named_variables()) {
    tensors.emplace(name, variable.value().to(float32));
  }
  io::write_safetensors(path, tensors, {{"format", "demi"}});
}

void Model::load_weights(const std::string& path) {
  const auto variables = impl_->graph().named_variables();
  const io::TensorMap tensors = io::read_safetensors(path).tensors;
  check_same(path, variables, tensors);
  for (const auto& [name, variable] : variables) {
    variable.assign(tensors.at(name).to(variable.dtype()));
  }
}

}  // namespace demi
