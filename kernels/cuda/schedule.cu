// The learning rate, evaluated on the device in float64 as LearningRate::at does on the host.

#include <demi/ops/schedule.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/registry.h"
#include "kernels/cuda/schedules.cuh"

namespace demi::cuda {
namespace {

/// Values of neighbouring steps: values[i] for the first i with step <= boundaries[i].
struct Pieces {
  static constexpr int kCapacity = 192;  // what fits into a kernel's parameters
  std::int64_t count;
  std::int64_t first, last;  ///< flags
  std::int64_t begin;        ///< steps up to here belong to the pieces before, unless `first`
  double rest;               ///< the value of later steps, if `last`
  std::int64_t boundaries[kCapacity];
  double values[kCapacity];
};

__global__ void evaluate_pieces(Pieces pieces, const std::int64_t* step_input, float* rate) {
  const std::int64_t step = *step_input;
  if (pieces.first == 0 && step <= pieces.begin) return;
  for (std::int64_t i = 0; i < pieces.count; ++i) {
    if (step > pieces.boundaries[i]) continue;
    *rate = static_cast<float>(pieces.values[i]);
    return;
  }
  if (pieces.last != 0) *rate = static_cast<float>(pieces.rest);
}

template <class Decay>
std::unique_ptr<Kernel> make_formula(const Decay& decay, Context& context) {
  ScalarInstruction formula;
  describe_schedule(decay, formula);
  const auto describe = [formula](const KernelArguments& a) {
    ScalarInstruction bound = formula;
    bound.inputs[0] = a.inputs[0];
    bound.outputs[0] = a.outputs[0];
    return bound;
  };
  return std::make_unique<ScalarKernel>("formula", ScalarOp::kSchedule, describe, context);
}

std::unique_ptr<Kernel> make_formula(const PiecewiseConstantDecay& decay, Context& context) {
  std::vector<Pieces> launches;
  const std::size_t boundaries = decay.boundaries.size();
  std::size_t at = 0;
  do {
    const std::size_t count = std::min<std::size_t>(Pieces::kCapacity, boundaries - at);
    Pieces pieces = {};
    pieces.count = static_cast<std::int64_t>(count);
    pieces.first = at == 0 ? 1 : 0;
    pieces.last = at + count == boundaries ? 1 : 0;
    pieces.begin = at == 0 ? 0 : decay.boundaries[at - 1];
    pieces.rest = decay.values.back();
    std::copy_n(decay.boundaries.begin() + static_cast<std::ptrdiff_t>(at), count,
                pieces.boundaries);
    std::copy_n(decay.values.begin() + static_cast<std::ptrdiff_t>(at), count, pieces.values);
    launches.push_back(pieces);
    at += count;
  } while (at < boundaries);
  const auto body = [launches, &context](const KernelArguments& a) {
    for (const Pieces& pieces : launches) {
      launch(&evaluate_pieces, 1, 1, 0, context.stream(), pieces, a.input<std::int64_t>(0),
             a.output<float>(0));
    }
  };
  return make_kernel("pieces", 0, body, static_cast<int>(launches.size()));
}

std::unique_ptr<Kernel> make_schedule(const KernelRequest& request, Context& context,
                                      std::string&) {
  const LearningRate& rate = request.attributes.as<ops::ScheduleAttributes>().rate;
  return std::visit([&](const auto& decay) { return make_formula(decay, context); },
                    rate.schedule());
}

}  // namespace

void register_schedule_kernels(Registry& registry) {
  registry.add("schedule", "formula", make_schedule);
}

}  // namespace demi::cuda
