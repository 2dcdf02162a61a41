// Updates of counters, averages and sums. An overwritten input is the output's buffer, so kernels
// read and write outputs only.

#include <demi/ops/state.h>

#include <cmath>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/registry.h"

namespace demi::cpu {
namespace {

std::unique_ptr<Kernel> increment_factory(const KernelRequest&, ThreadPool&, std::string&) {
  return make_kernel("scalar", 0, [](const KernelArguments& a) {
    if (*a.input<bool>(1)) ++*a.output<std::int64_t>(0);
  });
}

std::unique_ptr<Kernel> cycle_factory(const KernelRequest& request, ThreadPool&, std::string&) {
  const std::int64_t length = request.attributes.as<ops::CycleAttributes>().length;
  return make_kernel("scalar", 0, [length](const KernelArguments& a) {
    auto* position = a.output<std::int64_t>(0);
    const bool apply = *a.input<bool>(1);
    const bool completed = apply && *position + 1 >= length;
    if (apply) *position = completed ? 0 : *position + 1;
    *a.output<bool>(1) = completed;
  });
}

std::unique_ptr<Kernel> assign_factory(const KernelRequest& request, ThreadPool&, std::string&) {
  const std::size_t bytes = request.outputs[0].bytes();
  return make_kernel("copy", 0, [bytes](const KernelArguments& a) {
    if (*a.input<bool>(2) && bytes > 0) std::memcpy(a.outputs[0], a.inputs[1], bytes);
  });
}

template <class Acc>
std::unique_ptr<Kernel> make_moving_average(const KernelRequest& request, ThreadPool& pool) {
  constexpr std::int64_t kBlock = 512;
  const TensorType& running = request.outputs[0];
  const std::int64_t elements = running.shape.elements();
  const auto running_size = static_cast<std::int64_t>(size_of(running.dtype));
  const auto value_size = static_cast<std::int64_t>(size_of(request.inputs[1].dtype));
  const ConvertFn load_running = converter(running.dtype, dtype_of<Acc>);
  const ConvertFn load_value = converter(request.inputs[1].dtype, dtype_of<Acc>);
  const ConvertFn store = converter(dtype_of<Acc>, running.dtype);
  const double momentum = request.attributes.as<ops::MovingAverageAttributes>().momentum;
  const auto keep = static_cast<Acc>(momentum);
  const auto add = static_cast<Acc>(1 - momentum);
  return make_kernel("blocks", 0, [=, &pool](const KernelArguments& a) {
    if (!*a.input<bool>(2)) return;
    for_ranges(pool, elements, kElementwiseGrain, [&](std::int64_t begin, std::int64_t end) {
      Acc average[kBlock];
      Acc value[kBlock];
      for (std::int64_t first = begin; first < end; first += kBlock) {
        const std::int64_t count = std::min(kBlock, end - first);
        char* place = a.output<char>(0) + first * running_size;
        load_running(place, average, count);
        load_value(a.input<char>(1) + first * value_size, value, count);
        for (std::int64_t i = 0; i < count; ++i) average[i] = average[i] * keep + value[i] * add;
        store(average, place, count);
      }
    });
  });
}

std::unique_ptr<Kernel> moving_average_factory(const KernelRequest& request, ThreadPool& pool,
                                               std::string&) {
  if (request.outputs[0].dtype == DType::kFloat64) {
    return make_moving_average<double>(request, pool);
  }
  return make_moving_average<float>(request, pool);
}

std::unique_ptr<Kernel> accumulate_factory(const KernelRequest& request, ThreadPool&,
                                           std::string&) {
  const ConvertFn load_value = converter(request.inputs[3].dtype, DType::kFloat64);
  const ConvertFn load_weight = converter(request.inputs[4].dtype, DType::kFloat64);
  return make_kernel("scalar", 0, [=](const KernelArguments& a) {
    double value = 0;
    double weight = 0;
    load_value(a.inputs[3], &value, 1);
    load_weight(a.inputs[4], &weight, 1);
    if (std::isfinite(value)) {
      *a.output<double>(0) += value * weight;
      *a.output<double>(1) += weight;
    } else {
      ++*a.output<std::int64_t>(2);
    }
  });
}

}  // namespace

void register_state_kernels(Registry& registry) {
  registry.add("increment", "scalar", increment_factory);
  registry.add("cycle", "scalar", cycle_factory);
  registry.add("moving_average", "blocks", moving_average_factory);
  registry.add("assign", "copy", assign_factory);
  registry.add("accumulate", "scalar", accumulate_factory);
}

}  // namespace demi::cpu
