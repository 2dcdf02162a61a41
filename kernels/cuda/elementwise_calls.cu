#include "kernels/cuda/elementwise_calls.h"

#include <string>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/packet.cuh"
#include "src/core/check.h"

namespace demi::cuda {
namespace {

template <class T>
__global__ void relu_in_place(std::int64_t count, T* y) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    y[i] = store<T>(relu(load(y[i])));
  }
}

template <class T>
__global__ void mask(std::int64_t count, const T* dy, const T* y, T* out) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    out[i] = load(y[i]) > 0 ? dy[i] : store<T>(Compute<T>(0));
  }
}

template <class T>
__global__ void variance_of(std::int64_t count, double epsilon, const T* inv_std, T* variance) {
  for (std::int64_t i = thread_number(); i < count; i += thread_count()) {
    const double inverse = static_cast<double>(inv_std[i]);
    const double value = 1 / (inverse * inverse) - epsilon;
    variance[i] = static_cast<T>(value < 0 ? 0 : value);  // by rounding; a NaN stays
  }
}

/// body(tag) with the device type of a floating dtype.
template <class Body>
void with_type(DType dtype, Body&& body) {
  std::string reason;
  const bool known = dispatch_floating(dtype, reason, [&](auto tag) {
    body(tag);
    return true;
  });
  DEMI_CHECK(known, reason);
}

unsigned blocks(std::int64_t count) {
  return blocks_for(count, kElementwiseThreads);
}

}  // namespace

void apply_relu(void* y, DType dtype, std::int64_t count, cudaStream_t stream) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(&relu_in_place<T>, blocks(count), kElementwiseThreads, 0, stream, count,
           static_cast<T*>(y));
  });
}

void mask_gradient(const void* dy, const void* y, void* out, DType dtype, std::int64_t count,
                   cudaStream_t stream) {
  with_type(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(&mask<T>, blocks(count), kElementwiseThreads, 0, stream, count,
           static_cast<const T*>(dy), static_cast<const T*>(y), static_cast<T*>(out));
  });
}

void recover_variance(const void* inv_std, double epsilon, void* variance, DType dtype,
                      std::int64_t count, cudaStream_t stream) {
  const auto start = [&](auto zero) {
    using T = decltype(zero);
    launch(&variance_of<T>, blocks(count), kElementwiseThreads, 0, stream, count, epsilon,
           static_cast<const T*>(inv_std), static_cast<T*>(variance));
  };
  if (dtype == DType::kFloat64) {
    start(0.0);
  } else {
    start(0.0F);
  }
}

}  // namespace demi::cuda
