#include "src/training/callbacks/monitor.h"

#include <cmath>

namespace demi::internal {

bool larger_is_better(const std::string& name, MonitorMode mode) {
  if (mode != MonitorMode::kAuto) return mode == MonitorMode::kMax;
  return name.ends_with("accuracy") || name.ends_with("acc");
}

bool improves(double value, double best, double min_delta, bool larger) {
  if (std::isnan(value)) return false;
  if (std::isnan(best)) return true;
  return larger ? value - min_delta > best : value + min_delta < best;
}

}  // namespace demi::internal
