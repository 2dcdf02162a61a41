#include "tests/support/run_kernel.h"

#include <cstring>

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "src/ir/graph.h"
#include "src/ir/op_registry.h"

namespace demi::testing {
namespace {

std::vector<TensorType> types_of(const std::vector<const Tensor*>& tensors) {
  std::vector<TensorType> types;
  for (const Tensor* tensor : tensors) types.push_back({tensor->shape(), tensor->dtype()});
  return types;
}

/// A node like the one of the op in a graph; OpDef::overwrites asks for the number of inputs only.
std::vector<ir::Overwrite> overwrites_of(const ir::OpDef& op, const Attributes& attributes,
                                         std::size_t inputs, std::size_t outputs) {
  if (op.overwrites == nullptr) return {};
  ir::Node node;
  node.op = &op;
  node.attributes = attributes;
  node.inputs.resize(inputs);
  node.outputs.resize(outputs);
  return op.overwrites(node);
}

}  // namespace

std::vector<Tensor> run_kernel(std::string_view name, const Attributes& attributes,
                               const std::vector<const Tensor*>& inputs, KernelOptions options) {
  const ir::OpDef& op = ir::OpRegistry::instance().find(name);
  const std::vector<TensorType> input_types = types_of(inputs);
  std::vector<TensorType> output_types = op.infer({input_types, attributes});
  if (options.store) output_types[0].dtype = *options.store;

  const std::shared_ptr<Backend> backend = make_cpu_backend(options.threads);
  const KernelSelection selection = backend->select({name, attributes, input_types, output_types});
  if (!selection.kernel) {
    ADD_FAILURE() << "no kernel of " << name << " accepts";
    return {};
  }

  std::vector<Tensor> outputs;
  for (const TensorType& type : output_types) outputs.emplace_back(type.shape, type.dtype);
  std::vector<const void*> input_addresses;
  std::vector<void*> output_addresses;
  for (const Tensor* input : inputs) input_addresses.push_back(input->raw());
  for (Tensor& output : outputs) output_addresses.push_back(output.raw());
  for (const ir::Overwrite& pair : overwrites_of(op, attributes, inputs.size(), outputs.size())) {
    Tensor& output = outputs[static_cast<std::size_t>(pair.output)];
    const Tensor& input = *inputs[static_cast<std::size_t>(pair.input)];
    if (input.bytes() > 0) std::memcpy(output.raw(), input.raw(), input.bytes());
    input_addresses[static_cast<std::size_t>(pair.input)] = output.raw();
  }
  const auto workspace = allocate_host_memory(selection.kernel->workspace_bytes());
  selection.kernel->run({input_addresses, output_addresses, workspace->address()});
  return outputs;
}

}  // namespace demi::testing
