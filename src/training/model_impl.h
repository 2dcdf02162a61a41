// ModelImpl: what all copies of a Model share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/model.h>

#include "src/core/tensor_type.h"
#include "src/layers/layer_graph.h"

namespace demi {

class Trainer;

struct ModelImpl {
  std::string name;
  bool is_sequential = false;
  /// Of a Sequential: its layers in order and, once known, its input.
  std::vector<std::shared_ptr<Layer>> sequence;
  std::optional<TensorType> sequence_input;
  std::string input_name;
  /// Empty until a Sequential knows its input.
  std::optional<LayerGraph> layer_graph;

  /// Null before compile().
  std::shared_ptr<const CompileOptions> compile_options;
  /// Null until it is needed and the layer graph is known. Refers to layer_graph, so it goes when
  /// that changes.
  std::shared_ptr<Trainer> trainer;

  /// The graph. Throws std::invalid_argument if it is not known yet.
  [[nodiscard]] const LayerGraph& graph() const;
  /// Builds a Sequential for inputs of these types (first extent: the batch, ignored); does nothing
  /// for a model that is built. Throws std::invalid_argument if a layer does not take them.
  void ensure_built(const std::vector<TensorType>& inputs);
  /// Appends to a Sequential. Changes nothing if it throws.
  void add(const SequentialItem& item);
  /// Calls the layers of a Sequential on its input and so makes layer_graph; drops the trainer.
  void build_sequence();
};

}  // namespace demi
