#include "src/core/reduction_layout.h"

namespace demi {

ReductionLayout reduction_layout(const Shape& shape, AxisSet axes) {
  struct Group {
    std::int64_t extent;
    bool reduced;
  };
  std::array<Group, Shape::kMaxRank> groups;
  int count = 0;
  ReductionLayout layout;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool reduced = axes.test(static_cast<std::size_t>(axis));
    (reduced ? layout.reduced_count : layout.outputs) *= shape[axis];
    if (shape[axis] == 1) continue;
    if (count > 0 && groups[static_cast<std::size_t>(count - 1)].reduced == reduced) {
      groups[static_cast<std::size_t>(count - 1)].extent *= shape[axis];
    } else {
      groups[static_cast<std::size_t>(count++)] = {shape[axis], reduced};
    }
  }
  std::int64_t stride = 1;
  for (int i = count - 1; i >= 0; --i) {
    const Group& group = groups[static_cast<std::size_t>(i)];
    if (i == count - 1) {
      layout.inner = group.extent;
      layout.inner_kept = !group.reduced;
    } else {
      (group.reduced ? layout.reduced : layout.kept).push_front(group.extent, stride);
    }
    stride *= group.extent;
  }
  return layout;
}

}  // namespace demi
