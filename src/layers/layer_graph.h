// LayerGraph: a model as calls of layers, independent of batch size and of any ir::Graph.
//
// Invariants:
//  1. `calls` are in topological order: every value a call reads is an input of the graph or
//  written
//     by an earlier call.
//  2. Every input leads to an output, and every call too.
//  3. Different layers have different names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <demi/layer.h>
#include <demi/symbolic_tensor.h>

#include "src/core/attributes.h"
#include "src/core/tensor_type.h"
#include "src/ir/op_def.h"

namespace demi {

struct LayerGraph {
  /// Index into `values`.
  using ValueIndex = int;

  struct Input {
    std::string name;
    ValueIndex value;
  };
  /// A call of a layer or, if `layer` is null, an op used outside of layers.
  struct Call {
    std::shared_ptr<Layer> layer;
    const ir::OpDef* op = nullptr;
    Attributes attributes;
    std::vector<ValueIndex> inputs;
    std::vector<ValueIndex> outputs;
  };
  struct Output {
    std::string name;  ///< of the layer or op that computes it, or of the input that it is
    ValueIndex value;
  };

  std::vector<Input> inputs;
  std::vector<Call> calls;
  std::vector<Output> outputs;
  /// Types as the user sees them: unknown batch, a layer's results in its compute dtype.
  std::vector<TensorType> values;
  /// Each layer once, in the order of its first call.
  std::vector<std::shared_ptr<Layer>> layers;

  [[nodiscard]] const TensorType& type(ValueIndex value) const {
    return values[static_cast<std::size_t>(value)];
  }
  /// The type of output `i` of the model: float32 where the last layer computes in 16 bits.
  [[nodiscard]] TensorType output_type(std::size_t i) const;
  /// Those of all layers in their order, each once.
  [[nodiscard]] std::vector<Variable> variables() const;
  [[nodiscard]] std::vector<Variable> trainable_variables() const;
  [[nodiscard]] std::vector<Variable> non_trainable_variables() const;
  /// The variables under the names by which files know them: paths, in which names of the automatic
  /// form ("dense_3", "dense_7") are counted anew among their siblings ("dense", "dense_1"), so
  /// that they do not depend on what else the process has built.
  [[nodiscard]] std::vector<std::pair<std::string, Variable>> named_variables() const;
};

/// What was recorded between `inputs` and `outputs`. Throws std::invalid_argument "[model] …" as
/// documented for Model.
[[nodiscard]] LayerGraph extract_layer_graph(const std::vector<SymbolicTensor>& inputs,
                                             const std::vector<SymbolicTensor>& outputs);

}  // namespace demi
