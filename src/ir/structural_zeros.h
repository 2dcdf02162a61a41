// What is known of the zeros of a value.
//
// Note [Structural zeros]
// Some values are zero at most places whatever the data: the gradient of a max-pooling is zero but
// at one place of each window. That is a property of the value. The op that makes it says so
// (OpDef::scatter), linear ops hand it on (OpDef::elementwise_linear), and scattered() reads it off
// any value. Passes give readers that can use it the few values and their places instead, so
// the zeros are neither stored nor multiplied; no kernel has to look for zeros, and no pass needs
// to know which op made them. A skipped zero could have met an infinity: kernels that skip must
// show such operands as the dense sum would.
//
// The zeros of a ReLU's gradient are no such property: about half of it, at no places known before,
// and a register-blocked dense sum takes about as long as one that picks its way through half of
// the terms. Next to a max-pooling, where the values are listed anyway, its zeros are skipped too.
#pragma once

#include <optional>
#include <vector>

#include "src/ir/graph.h"

namespace demi::ir {

/// A value that is zero but where `values`, through the ops of `through`, stand.
struct Scattered {
  ValueId values;
  ValueId places;               ///< uint8, of the shape of `values`
  Attributes windows;           ///< Pool2DAttributes, with the image's size
  std::vector<NodeId> through;  ///< element by element, in order
};

/// The structural zeros of `value`, if any are known.
[[nodiscard]] std::optional<Scattered> scattered(const Graph& graph, ValueId value);

/// The values alone, as scattered into the value: applies the ops of `through` to them, in new
/// nodes before `reader`.
[[nodiscard]] ValueId gather_values(Graph& graph, const Scattered& scattered, NodeId reader);

}  // namespace demi::ir
