// PolicyTrial: a model as it would be under another dtype policy.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <demi/dtype_policy.h>

#include "src/layers/layer_graph.h"

namespace demi::internal {

struct LayerState;

/// The policy that most layers have, inner ones included; the first of several. float32 without
/// layers.
[[nodiscard]] DTypePolicy prevailing_policy(const LayerGraph& model);

/// While it lives, the layers of the prevailing policy have another one, so that steps can be
/// planned with it; `model` must not be used otherwise meanwhile.
class PolicyTrial {
 public:
  /// Throws std::invalid_argument "[where] …" if the variables of `policy` have another dtype than
  /// those of the model.
  PolicyTrial(const LayerGraph& model, const DTypePolicy& policy, const std::string& where);
  ~PolicyTrial();
  PolicyTrial(const PolicyTrial&) = delete;
  PolicyTrial& operator=(const PolicyTrial&) = delete;

  /// The same layers, with the types that values have under the policy.
  [[nodiscard]] const LayerGraph& model() const { return model_; }

 private:
  void retype_values();

  LayerGraph model_;
  std::vector<std::pair<LayerState*, DTypePolicy>> previous_;
};

}  // namespace demi::internal
