#include "src/ir/work.h"

#include <vector>

#include "src/ir/op_def.h"

namespace demi::ir {

double multiply_adds(const Graph& graph, const Node& node) {
  if (node.op->multiply_adds == nullptr) return 0;
  std::vector<TensorType> inputs;
  for (const ValueId value : node.inputs) inputs.push_back(graph.type(value));
  return node.op->multiply_adds({inputs, node.attributes});
}

std::size_t moved_bytes(const Graph& graph, const Node& node) {
  std::size_t bytes = 0;
  for (const ValueId value : node.inputs) bytes += graph.type(value).bytes();
  for (const ValueId value : node.outputs) bytes += graph.type(value).bytes();
  return bytes;
}

}  // namespace demi::ir
