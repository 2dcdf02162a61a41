#include "src/ir/emit.h"

#include <demi/variable.h>

#include "src/core/check.h"
#include "src/ir/builtin_ops.h"
#include "src/ir/op_registry.h"

namespace demi {

const Shape& SymbolicTensor::shape() const {
  DEMI_CHECK(graph_ != nullptr, "shape() of an empty SymbolicTensor");
  return graph_->type(value_).shape;
}

DType SymbolicTensor::dtype() const {
  DEMI_CHECK(graph_ != nullptr, "dtype() of an empty SymbolicTensor");
  return graph_->type(value_).dtype;
}

const std::string& Variable::name() const {
  return state_->name;
}
const Shape& Variable::shape() const {
  return state_->type.shape;
}
DType Variable::dtype() const {
  return state_->type.dtype;
}
bool Variable::trainable() const {
  return state_->trainable;
}
Tensor Variable::value() const {
  return state_->read();
}
void Variable::assign(const Tensor& value) const {
  state_->write(value);
}

Variable::operator SymbolicTensor() const {
  if (state_ == nullptr) {
    internal::fail_argument("variable",
                            "expected a variable made by add_weight. Received: an "
                            "empty one (was build() called?).");
  }
  const std::shared_ptr<ir::Graph>& graph = ir::TraceScope::current();
  if (graph == nullptr) {
    internal::fail_argument("variable " + state_->name,
                            "expected to be used inside a layer, loss or metric being traced.");
  }
  return graph->tensor(graph->read_variable(state_));
}

namespace ir {

const TensorType& type_of(std::string_view name, const SymbolicTensor& tensor) {
  if (!tensor) {
    internal::fail_argument(name, "expected a value. Received: an empty SymbolicTensor.");
  }
  return tensor.graph()->type(tensor.value());
}

std::vector<SymbolicTensor> emit_all(std::string_view name, std::vector<SymbolicTensor> inputs,
                                     Attributes attributes) {
  if (inputs.empty()) internal::fail_argument(name, "expected at least one input. Received: none.");
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const SymbolicTensor& input : inputs) {
    static_cast<void>(type_of(name, input));
    if (input.graph() != inputs[0].graph()) {
      internal::fail_argument(name,
                              "expected inputs of one graph. Received: values of two graphs "
                              "(were they made on different threads?).");
    }
    ids.push_back(input.value());
  }
  Graph& graph = *inputs[0].graph();
  const OpDef& op = OpRegistry::instance().find(name);
  const NodeId node = graph.add_node(op, std::move(ids), std::move(attributes));
  std::vector<SymbolicTensor> outputs;
  for (const ValueId id : graph.node(node).outputs) outputs.push_back(graph.tensor(id));
  return outputs;
}

SymbolicTensor emit(std::string_view name, std::vector<SymbolicTensor> inputs,
                    Attributes attributes) {
  return emit_all(name, std::move(inputs), std::move(attributes)).front();
}

SymbolicTensor emit_constant(const SymbolicTensor& beside, double value, DType dtype,
                             const Shape& shape) {
  if (!beside) internal::fail_argument("constant", "expected a value. Received: none.");
  Graph& graph = *beside.graph();
  const NodeId node = graph.add_node(OpRegistry::instance().find("constant"), {},
                                     ConstantAttributes{value, shape, dtype});
  return graph.tensor(graph.node(node).outputs[0]);
}

const Node& producer(const SymbolicTensor& tensor) {
  return tensor.graph()->producer(tensor.value());
}

}  // namespace ir
}  // namespace demi
