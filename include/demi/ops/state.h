// Updates of single variables: counters, moving averages, sums over steps.
//
// A variable passed here must be read directly (a demi::Variable or its latest version); the result
// is its new version. `apply` is a bool scalar; where it is false nothing is written.
#pragma once

#include <cstdint>
#include <string>

#include <demi/symbolic_tensor.h>

namespace demi::ops {

/// counter + 1 if `apply`; an int64 scalar. IR: increment(counter, apply).
SymbolicTensor increment(const SymbolicTensor& counter, const SymbolicTensor& apply);
SymbolicTensor increment(const SymbolicTensor& counter);

struct CycleAttributes {
  std::int64_t length = 1;
  friend bool operator==(const CycleAttributes&, const CycleAttributes&) = default;
};
std::string describe(const CycleAttributes& attributes);

struct Cycle {
  SymbolicTensor position;   ///< int64 scalar in [0, length)
  SymbolicTensor completed;  ///< bool scalar: `apply` and the cycle begins anew
};
/// (position + 1) mod length if `apply`. Throws std::invalid_argument for length < 1.
Cycle cycle(const SymbolicTensor& position, const SymbolicTensor& apply, std::int64_t length);

struct MovingAverageAttributes {
  double momentum = 0.99;
  friend bool operator==(const MovingAverageAttributes&, const MovingAverageAttributes&) = default;
};
std::string describe(const MovingAverageAttributes& attributes);

/// running · momentum + value · (1 - momentum), floating, computed in float32 (float64 if `running`
/// is). Written by layers: the compiler makes the update depend on whether the step is finite.
/// Throws std::invalid_argument for different shapes or a momentum outside [0, 1].
/// IR: moving_average(running, value, apply).
SymbolicTensor moving_average(const SymbolicTensor& running, const SymbolicTensor& value,
                              double momentum);

/// `value`, which has the variable's shape and dtype. IR: assign(variable, value, apply).
SymbolicTensor assign(const SymbolicTensor& variable, const SymbolicTensor& value,
                      const SymbolicTensor& apply);

/// A weighted sum over steps, of three variables.
struct RunningSum {
  SymbolicTensor total;       ///< float64 scalar
  SymbolicTensor weight;      ///< float64 scalar
  SymbolicTensor non_finite;  ///< int64 scalar
};
/// total + value · weight and weight + weight for a finite `value` (a floating scalar), else
/// non_finite + 1. `weight` is a scalar of any number type.
/// IR: accumulate(total, weight, non_finite, value, value_weight).
RunningSum accumulate(const RunningSum& sum, const SymbolicTensor& value,
                      const SymbolicTensor& weight);

}  // namespace demi::ops
