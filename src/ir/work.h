// How much work a node is, whichever kernel does it: what costs and estimates are made of.
#pragma once

#include <cstddef>

#include "src/ir/graph.h"

namespace demi::ir {

/// Multiply-adds of one evaluation of a dense product; 0 where an op has none or they do not
/// outweigh its operands (OpDef::multiply_adds). Extents are known.
[[nodiscard]] double multiply_adds(const Graph& graph, const Node& node);

/// Bytes of all operands: what is read and written.
[[nodiscard]] std::size_t moved_bytes(const Graph& graph, const Node& node);

}  // namespace demi::ir
