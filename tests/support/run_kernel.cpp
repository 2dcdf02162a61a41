#include "tests/support/run_kernel.h"

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

  const std::shared_ptr<Backend> backend = test_backend(options.device, options.threads);
  const KernelSelection selection = backend->select({name, attributes, input_types, output_types});
  if (!selection.kernel) {
    ADD_FAILURE() << "no kernel of " << name << " accepts";
    return {};
  }
  if (options.selected != nullptr) *options.selected = selection.kernel->name();

  std::vector<std::shared_ptr<DeviceMemory>> memory;
  std::vector<const void*> input_addresses;
  std::vector<void*> output_addresses;
  for (const Tensor* input : inputs) {
    memory.push_back(backend->allocate(input->bytes(), "a test's input"));
    memory.back()->write(input->raw(), 0, input->bytes());
    input_addresses.push_back(memory.back()->address());
  }
  for (const TensorType& type : output_types) {
    memory.push_back(backend->allocate(type.bytes(), "a test's output"));
    output_addresses.push_back(memory.back()->address());
  }
  for (const ir::Overwrite& pair :
       overwrites_of(op, attributes, inputs.size(), output_types.size())) {
    const auto input = static_cast<std::size_t>(pair.input);
    const auto output = static_cast<std::size_t>(pair.output);
    memory[inputs.size() + output]->write(inputs[input]->raw(), 0, inputs[input]->bytes());
    input_addresses[input] = output_addresses[output];
  }
  const auto workspace = backend->allocate(selection.kernel->workspace_bytes(), "a test's kernel");
  selection.kernel->run({input_addresses, output_addresses, workspace->address()});

  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    Tensor& output = outputs.emplace_back(output_types[i].shape, output_types[i].dtype);
    memory[inputs.size() + i]->read(output.raw(), 0, output.bytes());
  }
  return outputs;
}

}  // namespace demi::testing
