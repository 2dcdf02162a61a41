// emit: how the functions of demi::ops add a node to the graph of their arguments.
#pragma once

#include <string_view>
#include <vector>

#include "src/ir/graph.h"

namespace demi::ir {

/// Adds a node of op `name` to the graph of `inputs`, which must all be of one graph and present.
/// Throws std::invalid_argument "[name] …" otherwise and for types the op refuses.
std::vector<SymbolicTensor> emit_all(std::string_view name, std::vector<SymbolicTensor> inputs,
                                     Attributes attributes = {});

/// The same for its first output.
SymbolicTensor emit(std::string_view name, std::vector<SymbolicTensor> inputs,
                    Attributes attributes = {});

/// A "constant" node in the graph of `beside`: a scalar, or a tensor of `shape` full of `value`.
SymbolicTensor emit_constant(const SymbolicTensor& beside, double value, DType dtype,
                             const Shape& shape = {});

/// The type of an argument of op `name`. Throws std::invalid_argument "[name] …" for an empty one.
[[nodiscard]] const TensorType& type_of(std::string_view name, const SymbolicTensor& tensor);

/// The node that produces `tensor`.
[[nodiscard]] const Node& producer(const SymbolicTensor& tensor);

}  // namespace demi::ir
