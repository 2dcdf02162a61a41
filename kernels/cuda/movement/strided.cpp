#include "kernels/cuda/movement/strided.h"

#include <cstdint>

namespace demi::cuda::movement {
namespace {

/// Whether `parts` neighbouring words can be taken as one: the last axis is contiguous on both
/// sides, and every position is a multiple of them.
bool can_widen(const StridedCopy& copy, std::int64_t parts) {
  if (copy.rank == 0 || copy.from % parts != 0 || copy.to % parts != 0) return false;
  const int last = copy.rank - 1;
  if (copy.from_stride[last] != 1 || copy.to_stride[last] != 1) return false;
  if (copy.extent[last] % parts != 0) return false;
  for (int axis = 0; axis < last; ++axis) {
    if (copy.from_stride[axis] % parts != 0 || copy.to_stride[axis] % parts != 0) return false;
  }
  return true;
}

void widen(StridedCopy& copy, std::int64_t parts) {
  copy.word *= static_cast<int>(parts);
  copy.from /= parts;
  copy.to /= parts;
  const int last = copy.rank - 1;
  copy.extent[last] /= parts;
  for (int axis = 0; axis < last; ++axis) {
    copy.from_stride[axis] /= parts;
    copy.to_stride[axis] /= parts;
  }
}

}  // namespace

StridedCopy make_copy(std::span<const Axis> axes, std::int64_t from, std::int64_t to,
                      std::size_t size) {
  StridedCopy copy;
  copy.word = static_cast<int>(size);
  copy.from = from;
  copy.to = to;
  for (const Axis& axis : axes) {
    if (axis.extent == 1) continue;
    const int last = copy.rank - 1;
    if (copy.rank > 0 && copy.from_stride[last] == axis.from * axis.extent &&
        copy.to_stride[last] == axis.to * axis.extent) {
      copy.extent[last] *= axis.extent;
      copy.from_stride[last] = axis.from;
      copy.to_stride[last] = axis.to;
      continue;
    }
    copy.extent[copy.rank] = axis.extent;
    copy.from_stride[copy.rank] = axis.from;
    copy.to_stride[copy.rank] = axis.to;
    ++copy.rank;
  }
  while (copy.word < 16 && can_widen(copy, 2)) widen(copy, 2);
  for (int axis = 0; axis < copy.rank; ++axis) copy.count *= copy.extent[axis];
  copy.narrow = copy.count <= INT32_MAX ? 1 : 0;
  return copy;
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()));
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= shape[axis];
  }
  return strides;
}

}  // namespace demi::cuda::movement
