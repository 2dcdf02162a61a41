#include "kernels/cuda/reduction/kernels.cuh"

namespace demi::cuda {

std::unique_ptr<Kernel> make_max(const TensorType& x, AxisSet axes, DType result,
                                 Context& context) {
  return make_axes_kernel<Max>(x, axes, false, result, context);
}

}  // namespace demi::cuda
