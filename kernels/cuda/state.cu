// Updates of counters, averages and sums. An overwritten input is the output's buffer, so kernels
// read and write outputs only.

#include <demi/ops/state.h>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

__global__ void increment(std::int64_t* counter, const bool* apply) {
  if (*apply) ++*counter;
}

__global__ void cycle(std::int64_t* position, bool* completed, const bool* apply,
                      std::int64_t length) {
  const bool applied = *apply;
  const bool ends = applied && *position + 1 >= length;
  if (applied) *position = ends ? 0 : *position + 1;
  *completed = ends;
}

__global__ void accumulate(double* total, double* total_weight, std::int64_t* non_finite,
                           AnyInput value_input, AnyInput weight_input) {
  const double value = value_input.get<double>(0);
  const double weight = weight_input.get<double>(0);
  if (isfinite(value)) {
    *total += value * weight;
    *total_weight += weight;
  } else {
    ++*non_finite;
  }
}

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

template <class T>
__global__ void moving_average(T* running, AnyInput value, const bool* apply, Compute<T> keep,
                               Compute<T> add, std::int64_t count) {
  if (!*apply) return;
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    running[i] = store<T>(load(running[i]) * keep + value.get<Compute<T>>(i) * add);
  }
}

std::unique_ptr<Kernel> make_increment(const KernelRequest&, Context& context, std::string&) {
  return make_kernel("scalar", 0, [&context](const KernelArguments& a) {
    launch(&increment, 1, 1, 0, context.stream(), a.output<std::int64_t>(0), a.input<bool>(1));
  });
}

std::unique_ptr<Kernel> make_cycle(const KernelRequest& request, Context& context, std::string&) {
  const std::int64_t length = request.attributes.as<ops::CycleAttributes>().length;
  return make_kernel("scalar", 0, [&context, length](const KernelArguments& a) {
    launch(&cycle, 1, 1, 0, context.stream(), a.output<std::int64_t>(0), a.output<bool>(1),
           a.input<bool>(1), length);
  });
}

std::unique_ptr<Kernel> make_accumulate(const KernelRequest& request, Context& context,
                                        std::string&) {
  const DType value = request.inputs[3].dtype;
  const DType weight = request.inputs[4].dtype;
  return make_kernel("scalar", 0, [&context, value, weight](const KernelArguments& a) {
    launch(&accumulate, 1, 1, 0, context.stream(), a.output<double>(0), a.output<double>(1),
           a.output<std::int64_t>(2), AnyInput{a.inputs[3], value}, AnyInput{a.inputs[4], weight});
  });
}

std::unique_ptr<Kernel> make_assign(const KernelRequest& request, Context& context, std::string&) {
  const auto bytes = static_cast<std::int64_t>(request.outputs[0].bytes());
  const unsigned blocks = elementwise_blocks((bytes + 15) / 16, context);
  return make_kernel("copy", 0, [&context, bytes, blocks](const KernelArguments& a) {
    launch(&assign, blocks, kElementwiseThreads, 0, context.stream(), a.output<unsigned char>(0),
           a.input<unsigned char>(1), a.input<bool>(2), bytes);
  });
}

std::unique_ptr<Kernel> make_moving_average(const KernelRequest& request, Context& context,
                                            std::string& reason) {
  const TensorType& running = request.outputs[0];
  const DType value = request.inputs[1].dtype;
  const double momentum = request.attributes.as<ops::MovingAverageAttributes>().momentum;
  const std::int64_t count = running.shape.elements();
  const unsigned blocks = elementwise_blocks(count, context);
  return dispatch_floating(running.dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    const auto keep = static_cast<Compute<T>>(momentum);
    const auto add = static_cast<Compute<T>>(1 - momentum);
    return make_kernel("elementwise", 0, [=, &context](const KernelArguments& a) {
      launch(&moving_average<T>, blocks, kElementwiseThreads, 0, context.stream(), a.output<T>(0),
             AnyInput{a.inputs[1], value}, a.input<bool>(2), keep, add, count);
    });
  });
}

}  // namespace

void register_state_kernels(Registry& registry) {
  registry.add("increment", "scalar", make_increment);
  registry.add("cycle", "scalar", make_cycle);
  registry.add("moving_average", "elementwise", make_moving_average);
  registry.add("assign", "copy", make_assign);
  registry.add("accumulate", "scalar", make_accumulate);
}

}  // namespace demi::cuda
