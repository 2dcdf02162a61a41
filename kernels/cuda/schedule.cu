// The learning rate, evaluated on the device in float64 as LearningRate::at does on the host.

#include <demi/ops/schedule.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {
namespace {

// Flags take a whole word: arguments of kernels have no padding (any_element.cuh).

__device__ double share_of(std::int64_t step, double decay_steps, std::int64_t staircase) {
  const double share = static_cast<double>(step) / decay_steps;
  return staircase != 0 ? floor(share) : share;
}

struct Constant {
  double value;
  __device__ double operator()(std::int64_t) const { return value; }
};

struct Exponential {
  double initial, decay_steps, decay_rate;
  std::int64_t staircase;
  __device__ double operator()(std::int64_t step) const {
    return initial * pow(decay_rate, share_of(step, decay_steps, staircase));
  }
};

struct InverseTime {
  double initial, decay_steps, decay_rate;
  std::int64_t staircase;
  __device__ double operator()(std::int64_t step) const {
    return initial / (1 + decay_rate * share_of(step, decay_steps, staircase));
  }
};

struct Polynomial {
  double initial, decay_steps, end, power;
  std::int64_t cycle;
  __device__ double operator()(std::int64_t step) const {
    const auto done = static_cast<double>(step);
    const double periods = cycle != 0 && step > 0 ? ceil(done / decay_steps) : 1;
    const double share = fmin(done / (decay_steps * periods), 1.0);
    return (initial - end) * pow(1 - share, power) + end;
  }
};

struct Cosine {
  double initial, decay_steps, alpha, warmup_target, warmup_steps;
  std::int64_t warms_up;
  __device__ double operator()(std::int64_t step) const {
    auto done = static_cast<double>(step);
    double start = initial;
    if (warms_up != 0) {
      if (done < warmup_steps) return start + (warmup_target - start) * (done / warmup_steps);
      done -= warmup_steps;
      start = warmup_target;
    }
    const double share = fmin(done / decay_steps, 1.0);
    return start * ((1 - alpha) * 0.5 * (1 + cos(3.14159265358979323846 * share)) + alpha);
  }
};

template <class Schedule>
__global__ void evaluate(Schedule schedule, const std::int64_t* step, float* rate) {
  *rate = static_cast<float>(schedule(*step));
}

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

Constant on_device(double value) {
  return {value};
}
Exponential on_device(const ExponentialDecay& d) {
  return {d.initial_learning_rate, d.decay_steps, d.decay_rate, d.staircase ? 1 : 0};
}
InverseTime on_device(const InverseTimeDecay& d) {
  return {d.initial_learning_rate, d.decay_steps, d.decay_rate, d.staircase ? 1 : 0};
}
Polynomial on_device(const PolynomialDecay& d) {
  return {d.initial_learning_rate, d.decay_steps, d.end_learning_rate, d.power, d.cycle ? 1 : 0};
}
Cosine on_device(const CosineDecay& d) {
  return {d.initial_learning_rate,       d.decay_steps,  d.alpha,
          d.warmup_target.value_or(0.0), d.warmup_steps, d.warmup_target.has_value() ? 1 : 0};
}

template <class Decay>
std::unique_ptr<Kernel> make_formula(const Decay& decay, Context& context) {
  const auto schedule = on_device(decay);
  return make_kernel("formula", 0, [schedule, &context](const KernelArguments& a) {
    launch(&evaluate<std::remove_const_t<decltype(schedule)>>, 1, 1, 0, context.stream(), schedule,
           a.input<std::int64_t>(0), a.output<float>(0));
  });
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
  return make_kernel("pieces", 0, [launches, &context](const KernelArguments& a) {
    for (const Pieces& pieces : launches) {
      launch(&evaluate_pieces, 1, 1, 0, context.stream(), pieces, a.input<std::int64_t>(0),
             a.output<float>(0));
    }
  });
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
