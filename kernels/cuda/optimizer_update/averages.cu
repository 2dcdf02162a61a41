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
  for_packets(table, [&](int entry, std::int64_t first, int count) {
    void* accumulator = table.address[0][entry];
    const DType dtype = table.dtype[0][entry];
    C sum[kLength] = {};
    C gradient[kLength] = {};
    // What an accumulator holds before does not matter, not even a NaN.
    if (!begins) load_some(accumulator, dtype, first, count, sum);
    load_some(table.address[1][entry], table.dtype[1][entry], first, count, gradient);
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
  for_packets(table, [&](int entry, std::int64_t first, int count) {
    void* variable = table.address[1][entry];
    const DType dtype = table.dtype[1][entry];
    C old[kLength] = {};
    C w[kLength] = {};
    load_as<C>(table.address[0][entry], first, count, old);
    load_some(variable, dtype, first, count, w);
    DEMI_UNROLL
    for (int i = 0; i < kLength; ++i) w[i] = keep == 0 ? w[i] : old[i] * keep + w[i] * add;
    store_as<C>(w, table.address[0][entry], first, count);
    if (overwrites) store_some(w, variable, dtype, first, count);
  });
}

/// The tables of tensors that are computed in float, and in double.
struct Split {
  std::vector<Table<2>> single, wide;

  explicit Split(const std::vector<Entry<2>>& entries)
      : single(tables(entries, [](const auto& e) { return e.dtype[0] != DType::kFloat64; })),
        wide(tables(entries, [](const auto& e) { return e.dtype[0] == DType::kFloat64; })) {}
  [[nodiscard]] int launches() const { return static_cast<int>(single.size() + wide.size()); }
};

/// Starts the kernel for each table, with addresses.
template <class Controls, class Address>
void launch_split(const Split& split, void (*single)(Table<2>, Controls),
                  void (*wide)(Table<2>, Controls), const Controls& controls,
                  const Context& context, Address&& address) {
  const auto start = [&](const Table<2>& table, auto* kernel) {
    launch(kernel, blocks_for_chunks(table, context), kThreads, 0, context.stream(),
           with_addresses(table, address), controls);
  };
  for (const Table<2>& table : split.single) start(table, single);
  for (const Table<2>& table : split.wide) start(table, wide);
}

std::unique_ptr<Kernel> make_accumulate(const KernelRequest& request, Context& context,
                                        std::string&) {
  constexpr std::size_t kControls = 3;
  const std::size_t count = request.outputs.size();
  std::vector<Entry<2>> entries;
  for (std::size_t i = 0; i < count; ++i) {
    const TensorType& accumulator = request.outputs[i];
    entries.push_back({.elements = accumulator.shape.elements(),
                       .dtype = {accumulator.dtype, request.inputs[kControls + count + i].dtype}});
  }
  const Split split(entries);
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
    const TensorType& variable = request.inputs[kControls + i];
    entries.push_back({.elements = variable.shape.elements(),
                       .dtype = {request.outputs[i].dtype, variable.dtype}});
  }
  const Split split(entries);
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
