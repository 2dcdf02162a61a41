// UpdateOperands: where the tensors of an adam_update or sgd_update node are.
#pragma once

#include <cstddef>
#include <optional>

#include <demi/ops/optimizer_update.h>

#include "src/ir/graph.h"

namespace demi::ir {

struct UpdateOperands {
  std::size_t variables = 0;       ///< how many
  std::size_t first_variable = 0;  ///< the input that is variable 0
  std::size_t first_gradient = 0;  ///< the input that is its gradient
};

/// Empty for nodes of other ops.
[[nodiscard]] std::optional<UpdateOperands> update_operands(const Node& node);

/// What all update rules have in common, of a node that has update_operands.
[[nodiscard]] ops::UpdateAttributes common_attributes(const Node& node);
/// The node's attributes with `common` in its place.
[[nodiscard]] Attributes with_common_attributes(const Node& node, ops::UpdateAttributes common);

}  // namespace demi::ir
