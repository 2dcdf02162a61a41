// Updates of counters, averages and sums. An overwritten input is the output's buffer, so kernels
// read and write outputs only. What they do on the device is in scalars.cuh.

#include <demi/ops/state.h>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/scalars.h"

namespace demi::cuda {
namespace {

__global__ void assign(unsigned char* variable, const unsigned char* value, const bool* apply,
                       std::int64_t bytes) {
  if (!*apply) return;
  const std::int64_t packets = bytes / 16;
  for (std::int64_t i = thread_number(); i < packets; i += thread_count()) {
    reinterpret_cast<uint4*>(variable)[i] = reinterpret_cast<const uint4*>(value)[i];
  }
  for (std::int64_t i = 16 * packets + thread_number(); i < bytes; i += thread_count()) {
    variable[i] = value[i];
  }
}

std::unique_ptr<Kernel> make_increment(const KernelRequest&, Context& context, std::string&) {
  const auto describe = [](const KernelArguments& a) {
    return ScalarInstruction{.inputs = {a.inputs[1]}, .outputs = {a.outputs[0]}};
  };
  return std::make_unique<ScalarKernel>("scalar", ScalarOp::kIncrement, describe, context);
}

std::unique_ptr<Kernel> make_cycle(const KernelRequest& request, Context& context, std::string&) {
  const std::int64_t length = request.attributes.as<ops::CycleAttributes>().length;
  const auto describe = [length](const KernelArguments& a) {
    return ScalarInstruction{
        .inputs = {a.inputs[1]}, .outputs = {a.outputs[0], a.outputs[1]}, .integers = {length}};
  };
  return std::make_unique<ScalarKernel>("scalar", ScalarOp::kCycle, describe, context);
}

std::unique_ptr<Kernel> make_accumulate(const KernelRequest& request, Context& context,
                                        std::string&) {
  const auto value = static_cast<std::int64_t>(request.inputs[3].dtype);
  const auto weight = static_cast<std::int64_t>(request.inputs[4].dtype);
  const auto describe = [value, weight](const KernelArguments& a) {
    return ScalarInstruction{.inputs = {a.inputs[3], a.inputs[4]},
                             .outputs = {a.outputs[0], a.outputs[1], a.outputs[2]},
                             .dtypes = {value, weight}};
  };
  return std::make_unique<ScalarKernel>("scalar", ScalarOp::kAccumulate, describe, context);
}

std::unique_ptr<Kernel> make_moving_average(const KernelRequest& request, Context& context,
                                            std::string&) {
  const auto value = static_cast<std::int64_t>(request.inputs[1].dtype);
  const auto running = static_cast<std::int64_t>(request.outputs[0].dtype);
  const std::int64_t count = request.outputs[0].shape.elements();
  const double momentum = request.attributes.as<ops::MovingAverageAttributes>().momentum;
  const auto describe = [=](const KernelArguments& a) {
    return ScalarInstruction{.inputs = {a.inputs[1], a.inputs[2]},
                             .outputs = {a.outputs[0]},
                             .dtypes = {value, running},
                             .integers = {count},
                             .numbers = {momentum}};
  };
  return std::make_unique<ScalarKernel>("block", ScalarOp::kMovingAverage, describe, context);
}

std::unique_ptr<Kernel> make_assign(const KernelRequest& request, Context& context, std::string&) {
  const auto bytes = static_cast<std::int64_t>(request.outputs[0].bytes());
  const unsigned blocks = elementwise_blocks((bytes + 15) / 16, context);
  return make_kernel("copy", 0, [&context, bytes, blocks](const KernelArguments& a) {
    launch(&assign, blocks, kElementwiseThreads, 0, context.stream(), a.output<unsigned char>(0),
           a.input<unsigned char>(1), a.input<bool>(2), bytes);
  });
}

}  // namespace

void register_state_kernels(Registry& registry) {
  registry.add("increment", "scalar", make_increment);
  registry.add("cycle", "scalar", make_cycle);
  registry.add("moving_average", "block", make_moving_average);
  registry.add("assign", "copy", make_assign);
  registry.add("accumulate", "scalar", make_accumulate);
}

}  // namespace demi::cuda
