// Positions of maxima along one axis.

#include <demi/ops/reduction.h>

#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduction/place.cuh"
#include "kernels/cuda/reduction/reduction.h"

namespace demi::cuda {
namespace {

/// The input seen as [outer, length, inner].
struct ArgmaxLayout {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
};

template <class T>
__device__ Place<Accumulator<T>> scan(const T* x, std::int64_t stride, std::int64_t first,
                                      std::int64_t length, std::int64_t step) {
  Place<Accumulator<T>> best = {Accumulator<T>{0}, -1};
  for (std::int64_t i = first; i < length; i += step) {
    best = First{}(best,
                   {convert_element<Accumulator<T>>(x[i * stride]), static_cast<std::int32_t>(i)});
  }
  return best;
}

/// inner 1: `width` lanes a row. Else one lane a column.
template <class T>
__global__ void argmax_by_lanes(ArgmaxLayout layout, const T* x, std::int32_t* y, int width) {
  const std::int64_t outputs = layout.outer * layout.inner;
  const std::int64_t groups = thread_count() / width;
  const std::int64_t lane = threadIdx.x % static_cast<unsigned>(width);
  const std::int64_t rounds = (outputs + groups - 1) / groups;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t output = round * groups + thread_number() / width;
    const bool inside = output < outputs;
    const std::int64_t outer = output / layout.inner;
    const T* from = x + outer * layout.length * layout.inner + output % layout.inner;
    auto best = scan(from, layout.inner, lane, inside ? layout.length : 0, width);
    best = reduce_lanes(best, width, First{});
    if (inside && lane == 0) y[output] = best.index;
  }
}

template <class T>
__global__ void argmax_by_blocks(ArgmaxLayout layout, const T* x, std::int32_t* y) {
  const std::int64_t outputs = layout.outer * layout.inner;
  for (std::int64_t output = blockIdx.x; output < outputs; output += gridDim.x) {
    const std::int64_t outer = output / layout.inner;
    const T* from = x + outer * layout.length * layout.inner + output % layout.inner;
    auto best = scan(from, layout.inner, threadIdx.x, layout.length, blockDim.x);
    best = reduce_block(best, First{});
    if (threadIdx.x == 0) y[output] = best.index;
  }
}

}  // namespace

std::unique_ptr<Kernel> make_argmax(const KernelRequest& request, Context& context,
                                    std::string& reason) {
  constexpr std::int64_t kByLanes = 1024;   // longer rows take a block,
  constexpr std::int64_t kFewOutputs = 64;  // and columns where they are this few
  const TensorType& x = request.inputs[0];
  const int reduced = request.attributes.as<ops::ReductionAttributes>().axes.front();
  ArgmaxLayout layout;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    (axis < reduced    ? layout.outer
     : axis == reduced ? layout.length
                       : layout.inner) *= x.shape[axis];
  }
  if (layout.length > INT32_MAX) {
    reason = "an index would not fit into int32";
    return nullptr;
  }
  const std::int64_t outputs = layout.outer * layout.inner;
  const bool by_blocks = layout.length > kByLanes && (layout.inner == 1 || outputs <= kFewOutputs);
  int width = 1;
  while (layout.inner == 1 && width < 32 && width < layout.length) width *= 2;
  return dispatch_any(x.dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    return make_kernel("scan", 0, [=, &context](const KernelArguments& a) {
      if (by_blocks) {
        launch(&argmax_by_blocks<T>, blocks_for(outputs, 1), kElementwiseThreads, 0,
               context.stream(), layout, a.input<T>(0), a.output<std::int32_t>(0));
      } else {
        launch(&argmax_by_lanes<T>, blocks_for(outputs * width, kElementwiseThreads),
               kElementwiseThreads, 0, context.stream(), layout, a.input<T>(0),
               a.output<std::int32_t>(0), width);
      }
    });
  });
}

}  // namespace demi::cuda
