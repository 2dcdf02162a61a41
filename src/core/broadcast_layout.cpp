#include "src/core/broadcast_layout.h"

#include <algorithm>

#include "src/core/check.h"

namespace demi {

BroadcastLayout broadcast_layout(const Shape& from, const Shape& to) {
  DEMI_CHECK(from.rank() <= to.rank(), "an operand has more axes than what it broadcasts to");
  BroadcastLayout reversed;  // innermost first
  std::int64_t natural_stride = 1;
  for (int axis = -1; axis >= -to.rank(); --axis) {
    const std::int64_t extent = to[axis];
    const std::int64_t own = axis >= -from.rank() ? from[axis] : 1;
    DEMI_CHECK(own == extent || own == 1, "an operand does not broadcast to the output");
    const std::int64_t stride = own == 1 ? 0 : natural_stride;
    natural_stride *= own;
    if (extent == 1) continue;
    if (reversed.rank > 0) {
      const auto k = static_cast<std::size_t>(reversed.rank - 1);
      // Also true of two broadcast axes, whose strides are both 0.
      if (stride == reversed.stride[k] * reversed.extent[k]) {
        reversed.extent[k] *= extent;
        continue;
      }
    }
    const auto k = static_cast<std::size_t>(reversed.rank++);
    reversed.extent[k] = extent;
    reversed.stride[k] = stride;
  }
  BroadcastLayout layout = reversed;
  std::reverse(layout.extent.begin(), layout.extent.begin() + layout.rank);
  std::reverse(layout.stride.begin(), layout.stride.begin() + layout.rank);
  return layout;
}

}  // namespace demi
