// ModelImpl: what all copies of a Model share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <demi/model.h>

#include "src/layers/layer_graph.h"

namespace demi {

struct ModelImpl {
  std::string name;
  bool is_sequential = false;
  /// Of a Sequential: its layers in order, and its input if it has been given one.
  std::vector<std::shared_ptr<Layer>> sequence;
  std::optional<TensorType> sequence_input;
  std::string input_name;
  /// Empty until a Sequential knows its input.
  std::optional<LayerGraph> layer_graph;

  /// The graph. Throws std::invalid_argument if it is not known yet.
  [[nodiscard]] const LayerGraph& graph() const;
  /// Builds a Sequential for inputs of these types (first extent: batch, ignored); does nothing for
  /// a model that is built. Throws std::invalid_argument if a layer does not take them.
  void ensure_built(const std::vector<TensorType>& inputs);

  /// The variables under the names by which weight files and checkpoints know them: paths in which
  /// automatic layer names are counted within this model, so that they do not depend on what else
  /// the process has built.
  [[nodiscard]] std::vector<std::pair<std::string, Variable>> named_variables() const;
};

}  // namespace demi
