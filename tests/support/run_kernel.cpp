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

/// Runs a kernel on copies of `inputs`. Overwritten inputs share the buffers of their outputs;
/// input `reused`, if it is not negative, that of output 0.
std::vector<Tensor> run_on_copies(Backend& backend, Kernel& kernel,
                                  const std::vector<const Tensor*>& inputs,
                                  const std::vector<TensorType>& output_types,
                                  const std::vector<ir::Overwrite>& overwrites, int reused) {
  std::vector<std::shared_ptr<DeviceMemory>> of_inputs, of_outputs;
  std::vector<const void*> input_addresses;
  std::vector<void*> output_addresses;
  for (const Tensor* input : inputs) {
    of_inputs.push_back(backend.allocate(input->bytes(), "a test's input"));
    of_inputs.back()->write(input->raw(), 0, input->bytes());
    input_addresses.push_back(of_inputs.back()->address());
  }
  for (const TensorType& type : output_types) {
    of_outputs.push_back(backend.allocate(type.bytes(), "a test's output"));
    output_addresses.push_back(of_outputs.back()->address());
  }
  const auto share = [&](std::size_t input, std::size_t output) {
    of_outputs[output]->write(inputs[input]->raw(), 0, inputs[input]->bytes());
    input_addresses[input] = output_addresses[output];
  };
  for (const ir::Overwrite& pair : overwrites) {
    share(static_cast<std::size_t>(pair.input), static_cast<std::size_t>(pair.output));
  }
  if (reused >= 0) share(static_cast<std::size_t>(reused), 0);
  const auto workspace = backend.allocate(kernel.workspace_bytes(), "a test's kernel");
  kernel.run({input_addresses, output_addresses, workspace->address()});
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    Tensor& output = outputs.emplace_back(output_types[i].shape, output_types[i].dtype);
    of_outputs[i]->read(output.raw(), 0, output.bytes());
  }
  return outputs;
}

/// The rule of the planner.
bool can_hold(const TensorType& input, const TensorType& output) {
  return input.bytes() == output.bytes() && size_of(input.dtype) == size_of(output.dtype) &&
         input.bytes() > 0;
}

}  // namespace

std::vector<Tensor> run_kernel(std::string_view name, const Attributes& attributes,
                               const std::vector<const Tensor*>& inputs, KernelOptions options) {
  const ir::OpDef& op = ir::OpRegistry::instance().find(name);
  const std::vector<TensorType> input_types = types_of(inputs);
  std::vector<TensorType> output_types = op.infer({input_types, attributes});
  if (options.store) output_types[0].dtype = *options.store;

  const std::shared_ptr<Backend> backend =
      options.backend ? options.backend : test_backend(options.device, options.threads);
  const KernelSelection selection = backend->select({name, attributes, input_types, output_types});
  if (!selection.kernel) {
    ADD_FAILURE() << "no kernel of " << name << " accepts";
    return {};
  }
  if (options.selected != nullptr) *options.selected = selection.kernel->name();
  const std::vector<ir::Overwrite> overwrites =
      overwrites_of(op, attributes, inputs.size(), output_types.size());
  std::vector<Tensor> outputs =
      run_on_copies(*backend, *selection.kernel, inputs, output_types, overwrites, -1);
  if (!selection.kernel->may_overwrite_inputs()) return outputs;
  for (const int reused : op.reusable_inputs) {
    const auto index = static_cast<std::size_t>(reused);
    if (index >= inputs.size() || !can_hold(input_types[index], output_types[0])) continue;
    const std::vector<Tensor> in_place =
        run_on_copies(*backend, *selection.kernel, inputs, output_types, overwrites, reused);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      expect_identical(in_place[i], outputs[i],
                       std::string(name) + " in the buffer of input " + std::to_string(reused));
    }
  }
  return outputs;
}

}  // namespace demi::testing
