// Learning rates on the device, in float64 as LearningRate::at computes them on the host.
#pragma once

#include <cstdint>

#include <demi/ops/schedule.h>

#include "kernels/cuda/device_compat.cuh"
#include "kernels/cuda/scalars.h"

namespace demi::cuda {

/// Of a ScalarInstruction, in integers[0]; integers[1] is the flag of the schedule.
enum class ScheduleKind : std::int64_t {
  kConstant,
  kExponential,
  kInverseTime,
  kPolynomial,
  kCosine
};

// ---- How the host writes an instruction ------------------------------------------------------

inline void describe_schedule(double value, ScalarInstruction& to) {
  to.integers[0] = static_cast<std::int64_t>(ScheduleKind::kConstant);
  to.numbers[0] = value;
}

inline void set_schedule(ScalarInstruction& to, ScheduleKind kind, bool flag,
                         const double (&numbers)[5]) {
  to.integers[0] = static_cast<std::int64_t>(kind);
  to.integers[1] = flag ? 1 : 0;
  for (int i = 0; i < 5; ++i) to.numbers[i] = numbers[i];
}

inline void describe_schedule(const ExponentialDecay& d, ScalarInstruction& to) {
  set_schedule(to, ScheduleKind::kExponential, d.staircase,
               {d.initial_learning_rate, d.decay_steps, d.decay_rate, 0, 0});
}
inline void describe_schedule(const InverseTimeDecay& d, ScalarInstruction& to) {
  set_schedule(to, ScheduleKind::kInverseTime, d.staircase,
               {d.initial_learning_rate, d.decay_steps, d.decay_rate, 0, 0});
}
inline void describe_schedule(const PolynomialDecay& d, ScalarInstruction& to) {
  set_schedule(to, ScheduleKind::kPolynomial, d.cycle,
               {d.initial_learning_rate, d.decay_steps, d.end_learning_rate, d.power, 0});
}
inline void describe_schedule(const CosineDecay& d, ScalarInstruction& to) {
  set_schedule(to, ScheduleKind::kCosine, d.warmup_target.has_value(),
               {d.initial_learning_rate, d.decay_steps, d.alpha, d.warmup_target.value_or(0.0),
                d.warmup_steps});
}

// ---- How the device reads it -----------------------------------------------------------------

__device__ inline double share_of(std::int64_t step, double decay_steps, bool staircase) {
  const double share = static_cast<double>(step) / decay_steps;
  return staircase ? floor(share) : share;
}

__device__ inline double polynomial_rate(const double (&n)[5], bool cycle, std::int64_t step) {
  const auto done = static_cast<double>(step);
  const double periods = cycle && step > 0 ? ceil(done / n[1]) : 1;
  const double share = fmin(done / (n[1] * periods), 1.0);
  return (n[0] - n[2]) * pow(1 - share, n[3]) + n[2];
}

__device__ inline double cosine_rate(const double (&n)[5], bool warms_up, std::int64_t step) {
  auto done = static_cast<double>(step);
  double start = n[0];
  if (warms_up) {
    if (done < n[4]) return start + (n[3] - start) * (done / n[4]);
    done -= n[4];
    start = n[3];
  }
  const double share = fmin(done / n[1], 1.0);
  return start * ((1 - n[2]) * 0.5 * (1 + cos(3.14159265358979323846 * share)) + n[2]);
}

/// The rate of `step` under the schedule of an instruction.
__device__ inline double schedule_rate(const ScalarInstruction& schedule, std::int64_t step) {
  const double(&n)[5] = schedule.numbers;
  const bool flag = schedule.integers[1] != 0;
  switch (static_cast<ScheduleKind>(schedule.integers[0])) {
    case ScheduleKind::kExponential:
      return n[0] * pow(n[2], share_of(step, n[1], flag));
    case ScheduleKind::kInverseTime:
      return n[0] / (1 + n[2] * share_of(step, n[1], flag));
    case ScheduleKind::kPolynomial:
      return polynomial_rate(n, flag, step);
    case ScheduleKind::kCosine:
      return cosine_rate(n, flag, step);
    default:
      return n[0];
  }
}

}  // namespace demi::cuda
