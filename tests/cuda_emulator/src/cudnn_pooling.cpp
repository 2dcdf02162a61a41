// cuDNN's pooling in the API before operation graphs. Computed in double, rounded once.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/cuda_emulator/src/cudnn_legacy.h"
#include "tests/cuda_emulator/src/cudnn_real.h"
#include "tests/cuda_emulator/src/memory_check.h"
#include "tests/cuda_emulator/src/stream.h"

namespace cuda_emulator {
namespace {

struct Pooling {
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nans;
  int window_h, window_w, padding_h, padding_w, stride_h, stride_w;
  StridedTensor x, y;

  [[nodiscard]] bool is_max() const {
    return mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC;
  }
};

/// body(index in y, the window's indices in x) for each output, both in dense order.
template <class Body>
void for_each_window(const Pooling& pooling, Body&& body) {
  const auto& [n, c, h, w] = pooling.x.extents;
  const std::int64_t oh = pooling.y.extents[2], ow = pooling.y.extents[3];
  std::vector<std::size_t> inside;
  for (std::int64_t image = 0; image < n; ++image) {
    for (std::int64_t i = 0; i < oh; ++i) {
      for (std::int64_t j = 0; j < ow; ++j) {
        for (std::int64_t channel = 0; channel < c; ++channel) {
          inside.clear();
          const std::int64_t top = i * pooling.stride_h - pooling.padding_h;
          const std::int64_t left = j * pooling.stride_w - pooling.padding_w;
          for (std::int64_t y = std::max<std::int64_t>(0, top);
               y < std::min(h, top + pooling.window_h); ++y) {
            for (std::int64_t x = std::max<std::int64_t>(0, left);
                 x < std::min(w, left + pooling.window_w); ++x) {
              inside.push_back(static_cast<std::size_t>(((image * h + y) * w + x) * c + channel));
            }
          }
          body(static_cast<std::size_t>(((image * oh + i) * ow + j) * c + channel), inside);
        }
      }
    }
  }
}

/// By how much a window's average is divided.
double divisor(const Pooling& pooling, const std::vector<std::size_t>& inside) {
  return pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
             ? static_cast<double>(inside.size())
             : static_cast<double>(pooling.window_h) * pooling.window_w;
}

/// The first of the largest; with propagation, the first NaN.
std::size_t largest(const Pooling& pooling, const std::vector<double>& x,
                    const std::vector<std::size_t>& inside) {
  std::size_t best = inside.front();
  for (const std::size_t i : inside) {
    if (std::isnan(x[i])) {
      if (pooling.nans == CUDNN_PROPAGATE_NAN) return i;
    } else if (std::isnan(x[best]) || x[i] > x[best]) {
      best = i;
    }
  }
  return best;
}

void blend(const Blend& factors, const StridedTensor& tensor, std::vector<double> result,
           void* address) {
  std::vector<double> old;
  if (factors.beta != 0) old = load_dense<double>(tensor, address);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = factors.alpha * result[i] + (old.empty() ? 0 : factors.beta * old[i]);
  }
  store_dense(tensor, result, address);
}

void pool(const Pooling& pooling, const Blend& factors, const void* x, void* y) {
  const std::vector<double> source = load_dense<double>(pooling.x, x);
  std::vector<double> result(static_cast<std::size_t>(pooling.y.count()));
  for_each_window(pooling, [&](std::size_t to, const std::vector<std::size_t>& inside) {
    if (inside.empty()) {
      result[to] = pooling.is_max() ? -std::numeric_limits<double>::infinity() : 0;
    } else if (pooling.is_max()) {
      result[to] = source[largest(pooling, source, inside)];
    } else {
      double sum = 0;
      for (const std::size_t i : inside) sum += source[i];
      result[to] = sum / divisor(pooling, inside);
    }
  });
  blend(factors, pooling.y, std::move(result), y);
}

void pool_backward(const Pooling& pooling, const Blend& factors, const void* x, const void* dy,
                   void* dx) {
  const std::vector<double> source = load_dense<double>(pooling.x, x);
  const std::vector<double> gradient = load_dense<double>(pooling.y, dy);
  std::vector<double> result(source.size());
  for_each_window(pooling, [&](std::size_t from, const std::vector<std::size_t>& inside) {
    if (inside.empty()) return;
    if (pooling.is_max()) {
      result[largest(pooling, source, inside)] += gradient[from];
    } else {
      for (const std::size_t i : inside) result[i] += gradient[from] / divisor(pooling, inside);
    }
  });
  blend(factors, pooling.x, std::move(result), dx);
}

cudnnStatus_t read_pooling(cudnnPoolingDescriptor_t descriptor, cudnnTensorDescriptor_t x,
                           cudnnTensorDescriptor_t y, const char* call, Pooling& pooling) {
  check_descriptor(descriptor, call);
  if (descriptor == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the pooling descriptor is null");
  }
  cudnnStatus_t status = DEMI_REAL_CUDNN(cudnnGetPooling2dDescriptor)(
      descriptor, &pooling.mode, &pooling.nans, &pooling.window_h, &pooling.window_w,
      &pooling.padding_h, &pooling.padding_w, &pooling.stride_h, &pooling.stride_w);
  if (status == CUDNN_STATUS_SUCCESS) status = read_tensor(x, call, pooling.x);
  if (status == CUDNN_STATUS_SUCCESS) status = read_tensor(y, call, pooling.y);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  int n = 0, c = 0, h = 0, w = 0;
  status = DEMI_REAL_CUDNN(cudnnGetPooling2dForwardOutputDim)(descriptor, x, &n, &c, &h, &w);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (pooling.y.extents != std::array<std::int64_t, 4>{n, c, h, w}) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "y has not the extents of the pooled x");
  }
  if (pooling.x.format != pooling.y.format) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "x and y have different types");
  }
  return CUDNN_STATUS_SUCCESS;
}

bool is_same(const StridedTensor& a, const StridedTensor& b) {
  return a.format == b.format && a.extents == b.extents && a.strides == b.strides;
}

}  // namespace
}  // namespace cuda_emulator

using namespace cuda_emulator;

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t descriptor,
                                  const void* alpha, cudnnTensorDescriptor_t x_descriptor,
                                  const void* x, const void* beta,
                                  cudnnTensorDescriptor_t y_descriptor, void* y) {
  const Call call("cudnnPoolingForward");
  cudaStream_t stream = nullptr;
  cudnnStatus_t status = begin_cudnn_call(call.error(), handle, call.name(), stream);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Pooling pooling;
  status = read_pooling(descriptor, x_descriptor, y_descriptor, call.name(), pooling);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (alpha == nullptr || beta == nullptr || x == nullptr || y == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an address is null");
  }
  MemoryCheck memory(call.name());
  memory.add_read("x", x, pooling.x.bytes());
  memory.add_written("y", y, pooling.y.bytes());
  const Blend factors = read_blend(pooling.x.format, alpha, beta);
  return enqueue_cudnn(stream, call.name(), [=] { pool(pooling, factors, x, y); });
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t descriptor,
                                   const void* alpha, cudnnTensorDescriptor_t y_descriptor,
                                   const void* y, cudnnTensorDescriptor_t dy_descriptor,
                                   const void* dy, cudnnTensorDescriptor_t x_descriptor,
                                   const void* x, const void* beta,
                                   cudnnTensorDescriptor_t dx_descriptor, void* dx) {
  const Call call("cudnnPoolingBackward");
  cudaStream_t stream = nullptr;
  cudnnStatus_t status = begin_cudnn_call(call.error(), handle, call.name(), stream);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  Pooling pooling;
  StridedTensor dy_tensor, dx_tensor;
  status = read_pooling(descriptor, x_descriptor, y_descriptor, call.name(), pooling);
  if (status == CUDNN_STATUS_SUCCESS) status = read_tensor(dy_descriptor, call.name(), dy_tensor);
  if (status == CUDNN_STATUS_SUCCESS) status = read_tensor(dx_descriptor, call.name(), dx_tensor);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (!is_same(dy_tensor, pooling.y) || !is_same(dx_tensor, pooling.x)) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM, "y and dy, or x and dx, differ");
  }
  if (alpha == nullptr || beta == nullptr || x == nullptr || y == nullptr || dy == nullptr ||
      dx == nullptr) {
    return cudnn_failure(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an address is null");
  }
  MemoryCheck memory(call.name());
  memory.add_read("x", x, pooling.x.bytes());
  memory.add_read("y", y, pooling.y.bytes());
  memory.add_read("dy", dy, pooling.y.bytes());
  memory.add_written("dx", dx, pooling.x.bytes());
  const Blend factors = read_blend(pooling.x.format, alpha, beta);
  return enqueue_cudnn(stream, call.name(), [=] { pool_backward(pooling, factors, x, dy, dx); });
}
