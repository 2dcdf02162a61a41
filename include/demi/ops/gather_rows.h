// Rows of arrays by their numbers: how a step takes its samples from a data set that lies on the
// device.
#pragma once

#include <string>
#include <vector>

#include <demi/ops/cast.h>

namespace demi::ops {

struct GatherRowsAttributes {
  /// One per array, as of the op rescale; scale 1 and offset 0 leave the elements as they are.
  std::vector<RescaleAttributes> rescales;
  friend bool operator==(const GatherRowsAttributes&, const GatherRowsAttributes&) = default;
};
std::string describe(const GatherRowsAttributes& attributes);

/// Of each array [n, ...] the rows with the numbers `rows`, int64 [m]: [m, ...], all in one launch.
/// An array with a rescale becomes x · scale + offset, computed in float32, as floating values:
/// integers as float32. Rows outside [0, n) are zeros, before the rescale. `rescales` is empty or
/// has one for each array. Data, not weights, are gathered: asking for a gradient throws
/// std::invalid_argument.
[[nodiscard]] std::vector<SymbolicTensor> gather_rows(const SymbolicTensor& rows,
                                                      const std::vector<SymbolicTensor>& arrays,
                                                      std::vector<RescaleAttributes> rescales = {});

}  // namespace demi::ops
