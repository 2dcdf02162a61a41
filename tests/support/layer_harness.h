// What every layer must satisfy, for the tests of layers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/layer.h>
#include <demi/model.h>
#include <demi/tensor.h>

#include "src/ir/graph.h"
#include "src/training/trace.h"

namespace demi::testing {

/// Sets the global policy for its lifetime.
class PolicyScope {
 public:
  explicit PolicyScope(const DTypePolicy& policy) : previous_(global_policy()) {
    set_global_policy(policy);
  }
  ~PolicyScope() { set_global_policy(previous_); }
  PolicyScope(const PolicyScope&) = delete;
  PolicyScope& operator=(const PolicyScope&) = delete;

 private:
  DTypePolicy previous_;
};

struct LayerCase {
  /// Makes the layer under the global policy.
  std::function<std::shared_ptr<Layer>()> make;
  /// Shapes of one sample.
  std::vector<Shape> inputs;
  Shape output;
  int trainable = 0;
  int non_trainable = 0;
  std::int64_t params = 0;
  /// Of the variables under a pure float16 policy.
  DType variable_dtype_of_float16 = DType::kFloat16;
};

/// Under every policy: construction, config round trip, symbolic shape and dtype, number, dtype and
/// size of variables, and that tracing with a batch gives, before and after autocast, a valid graph
/// whose result has the shape and dtype that were promised, in training and without.
void expect_layer(const LayerCase& layer_case);

/// A model traced for `batch`, before the passes.
struct TracedGraph {
  std::shared_ptr<ir::Graph> graph;
  TracedModel traced;
};
[[nodiscard]] TracedGraph trace_for(const Model& model, std::int64_t batch, bool training);

/// The graph after autocast as text.
[[nodiscard]] std::string autocast_text(const Model& model, std::int64_t batch,
                                        bool training = false);

/// Output `output` of the model for inputs of one batch, on the CPU.
[[nodiscard]] Tensor predict(const Model& model, const std::vector<Tensor>& inputs,
                             std::size_t output = 0);

}  // namespace demi::testing
