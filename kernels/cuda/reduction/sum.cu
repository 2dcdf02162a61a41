#include "kernels/cuda/reduction/kernels.cuh"

namespace demi::cuda {

std::unique_ptr<Kernel> make_sum(const TensorType& x, AxisSet axes, bool mean, DType result,
                                 Context& context) {
  return make_axes_kernel<Sum>(x, axes, mean, result, context);
}

}  // namespace demi::cuda
