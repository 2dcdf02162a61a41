// accumulate_gradients and ema_update. What they overwrite is read and written at the outputs.

#include <demi/ops/optimizer_update.h>

#include "kernels/cuda/optimizer_update/register.h"
#include "kernels/cuda/optimizer_update/tensors.cuh"

namespace demi::cuda::optimizer_update {
namespace {

struct Accumulation {
  const float* inverse_scale;
  const bool* apply;
  const std::int64_t* position;
};

/// Lists: accumulators, gradients.
template <class C>
__global__ void accumulate(Table<2> table, Accumulation controls) {
  if (!*controls.apply) return;
  const C scale = *controls.inverse_scale;
  const bool begins = *controls.position == 0;
  for_packets(table, [&](const Entry<2>& entry, std::int64_t first, int count) {
    void* accumulator = entry.address[0];
    const DType dtype = entry.dtype[0];
    C sum[kLength] = {};
    C gradient[kLength] = {};
    // What an accumulator holds before does not matter, not even a NaN.
    if (!begins) load_some(accumulator, dtype, first, count, sum);
    load_some(entry.address[1], entry.dtype[1], first, count, gradient);
    DEMI_UNROLL
    for (int i = 0; i < kLength; ++i) sum[i] += gradient[i] * scale;
    store_some(sum, accumulator, dtype, first, count);
  });
}

struct Average {
  const bool* apply;
  const std::int64_t* iterations;
  double momentum;
  std::int64_t overwrite_frequency;
};

/// Lists: averages, variables.
template <class C>
__global__ void average(Table<2> table, Average controls) {
  if (!*controls.apply) return;
  const std::int64_t iterations = *controls.iterations;
  const double momentum = iterations == 0 ? 0.0 : controls.momentum;
  const auto keep = static_cast<C>(momentum);
  const auto add = static_cast<C>(1 - momentum);
  const std::int64_t frequency = controls.overwrite_frequency;
  const bool overwrites = frequency > 0 && (iterations + 1) % frequency == 0;
  for_packets(table, [&](const Entry<2>& entry, std::int64_t first, int count) {
    void* variable = entry.address[1];
    const DType dtype = entry.dtype[1];
    C old[kLength] = {};
    C w[kLength] = {};
    load_as<C>(entry.address[0], first, count, old);
    load_some(variable, dtype, first, count, w);
    DEMI_UNROLL
    for (int i = 0; i < kLength; ++i) w[i] = keep == 0 ? w[i] : old[i] * keep + w[i] * add;
    store_as<C>(w, entry.address[0], first, count);
    if (overwrites) store_some(w, variable, dtype, first, count);
  });
}

/// The tensors that are computed in float, and in double.
struct Split {
  Tensors<2> single, wide;

  Split(const std::vector<Entry<2>>& entries, Context& context)
      : single(
            entries, [](const auto& e) { return e.dtype[0] != DType::kFloat64; }, context),
        wide(
            entries, [](const auto& e) { return e.dtype[0] == DType::kFloat64; }, context) {}
  [[nodiscard]] int launches() const {
    return (single.is_empty() ? 0 : 1) + (wide.is_empty() ? 0 : 1);
  }
};

/// Starts the kernels with addresses.
template <class Controls, class Address>
void launch_split(const Split& split, void (*single)(Table<2>, Controls),
                  void (*wide)(Table<2>, Controls), const Controls& controls,
                  const Context& context, Address&& address) {
  const auto start = [&](const Tensors<2>& tensors, auto* kernel) {
    if (tensors.is_empty()) return;
    launch(kernel, tensors.blocks(), kThreads, 0, context.stream(), tensors.table(address),
           controls);
  };
  start(split.single, single);
  start(split.wide, wide);
}

/// Element counts and dtypes of a pair of tensors.
Entry<2> pair_of(const TensorType& first, DType second) {
  Entry<2> entry;
  entry.elements = first.shape.elements();
  entry.dtype[0] = first.dtype;
  entry.dtype[1] = second;
  return entry;
}

std::unique_ptr<Kernel> make_accumulate(const KernelRequest& request, Context& context,
                                        std::string&) {
  constexpr std::size_t kControls = 3;
  const std::size_t count = request.outputs.size();
  std::vector<Entry<2>> entries;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(pair_of(request.outputs[i], request.inputs[kControls + count + i].dtype));
  }
  const Split split(entries, context);
  const auto body = [split, count, &context](const KernelArguments& arguments) {
    const Accumulation controls{.inverse_scale = arguments.input<float>(0),
                                .apply = arguments.input<bool>(1),
                                .position = arguments.input<std::int64_t>(2)};
    launch_split(split, &accumulate<float>, &accumulate<double>, controls, context,
                 [&](int list, std::size_t tensor) {
                   if (list == 0) return arguments.outputs[tensor];
                   return const_cast<void*>(arguments.inputs[kControls + count + tensor]);
                 });
  };
  return make_kernel("tables", 0, body, split.launches());
}

std::unique_ptr<Kernel> make_ema(const KernelRequest& request, Context& context, std::string&) {
  constexpr std::size_t kControls = 2;
  const std::size_t count = (request.inputs.size() - kControls) / 2;
  std::vector<Entry<2>> entries;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(pair_of(request.outputs[i], request.inputs[kControls + i].dtype));
  }
  const Split split(entries, context);
  const auto body = [split, &context, a = request.attributes.as<ops::EmaAttributes>()](
                        const KernelArguments& arguments) {
    const Average controls{.apply = arguments.input<bool>(0),
                           .iterations = arguments.input<std::int64_t>(1),
                           .momentum = a.momentum,
                           .overwrite_frequency = a.overwrite_frequency};
    launch_split(split, &average<float>, &average<double>, controls, context,
                 [&](int list, std::size_t tensor) {
                   // Variables are outputs only where they may be overwritten, then in the same
                   // buffer.
                   return list == 0 ? arguments.outputs[tensor]
                                    : const_cast<void*>(arguments.inputs[kControls + tensor]);
                 });
  };
  return make_kernel("tables", 0, body, split.launches());
}

}  // namespace

void register_averages(Registry& registry) {
  registry.add("accumulate_gradients", "tables", make_accumulate);
  registry.add("ema_update", "tables", make_ema);
}

}  // namespace demi::cuda::optimizer_update
