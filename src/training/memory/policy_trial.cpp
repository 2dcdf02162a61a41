#include "src/training/memory/policy_trial.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/layers/layer_state.h"

namespace demi::internal {
namespace {

void for_each_layer(LayerState& layer, const std::function<void(LayerState&)>& visit) {
  visit(layer);
  for (const auto& inner : layer.sublayers) for_each_layer(*inner, visit);
}

void for_each_layer(const LayerGraph& model, const std::function<void(LayerState&)>& visit) {
  for (const auto& layer : model.layers) for_each_layer(*layer->state(), visit);
}

}  // namespace

DTypePolicy prevailing_policy(const LayerGraph& model) {
  std::vector<std::pair<DTypePolicy, int>> counts;
  for_each_layer(model, [&](const LayerState& layer) {
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& entry) { return entry.first == layer.policy; });
    found == counts.end() ? counts.emplace_back(layer.policy, 1).second : ++found->second;
  });
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? DTypePolicy() : most->first;
}

PolicyTrial::PolicyTrial(const LayerGraph& model, const DTypePolicy& policy,
                         const std::string& where)
    : model_(model) {
  const DTypePolicy replaced = prevailing_policy(model);
  if (policy.variable_dtype() != replaced.variable_dtype()) {
    fail_argument(where, fmt::format("expected a policy whose variables are {}, as those of the "
                                     "model. Received: '{}', whose variables are {}.",
                                     demi::to_string(replaced.variable_dtype()), policy.name(),
                                     demi::to_string(policy.variable_dtype())));
  }
  for_each_layer(model, [&](LayerState& layer) {
    if (layer.policy != replaced) return;
    previous_.emplace_back(&layer, layer.policy);
    layer.policy = policy;
  });
  retype_values();
}

PolicyTrial::~PolicyTrial() {
  for (const auto& [layer, policy] : previous_) layer->policy = policy;
}

void PolicyTrial::retype_values() {
  const auto type = [this](int value) -> TensorType& {
    return model_.values[static_cast<std::size_t>(value)];
  };
  for (const LayerGraph::Call& call : model_.calls) {
    if (call.layer != nullptr) {
      for (const int output : call.outputs) {
        if (!is_floating(type(output).dtype)) continue;
        type(output).dtype = call.layer->dtype_policy().compute_dtype();
      }
      continue;
    }
    std::vector<TensorType> inputs;
    for (const int input : call.inputs) inputs.push_back(type(input));
    const std::vector<TensorType> outputs = call.op->infer({inputs, call.attributes});
    for (std::size_t i = 0; i < outputs.size(); ++i) type(call.outputs[i]) = outputs[i];
  }
}

}  // namespace demi::internal
