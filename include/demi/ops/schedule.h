// The learning rate as a value of the graph.
#pragma once

#include <string>

#include <demi/schedules.h>
#include <demi/symbolic_tensor.h>

namespace demi::ops {

struct ScheduleAttributes {
  LearningRate rate = 0;
  friend bool operator==(const ScheduleAttributes&, const ScheduleAttributes&) = default;
};
std::string describe(const ScheduleAttributes& attributes);

/// rate.at(iterations), computed in float64 and rounded to a float32 scalar. `iterations` is an
/// int64 scalar.
[[nodiscard]] SymbolicTensor schedule(const SymbolicTensor& iterations, const LearningRate& rate);

}  // namespace demi::ops
