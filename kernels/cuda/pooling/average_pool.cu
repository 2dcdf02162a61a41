// Mean over the part of each window inside the image, and its gradient.

#include "kernels/cuda/pooling/register.h"
#include "kernels/cuda/pooling/windows.cuh"

namespace demi::cuda::pooling {
namespace {

__device__ int length_of(const Range& range) {
  return range.end - range.begin;
}

template <class T, int N>
__global__ void average_pool(Windows p, const T* x, T* y) {
  for_positions<N>(p, p.rows.windows, p.columns.windows, [&](const Position& at) {
    const T* image = x + at.image * p.image_elements() + at.channel;
    const Range rows = p.rows.inside(at.row);
    const Range columns = p.columns.inside(at.column);
    Compute<T> sum[N] = {};
    for (int i = rows.begin; i < rows.end; ++i) {
      for (int j = columns.begin; j < columns.end; ++j) {
        const auto packet = load_packet<N>(image + i * p.image_row() + j * p.channels);
        DEMI_UNROLL
        for (int n = 0; n < N; ++n) sum[n] += load(packet.at[n]);
      }
    }
    const auto elements = static_cast<Compute<T>>(length_of(rows) * length_of(columns));
    Packet<T, N> values;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) values.at[n] = store<T>(sum[n] / elements);
    store_packet(y + p.pooled_offset(at), values);
  });
}

/// dx at each image position: the sum over the windows that cover it.
template <class T, int N>
__global__ void average_pool_backward(Windows p, const T* dy, T* dx) {
  for_positions<N>(p, p.rows.extent, p.columns.extent, [&](const Position& at) {
    const Range rows = p.rows.covering(at.row);
    const Range columns = p.columns.covering(at.column);
    Compute<T> sum[N] = {};
    for (int oy = rows.begin; oy < rows.end; ++oy) {
      const int height = length_of(p.rows.inside(oy));
      for (int ox = columns.begin; ox < columns.end; ++ox) {
        const auto elements = static_cast<Compute<T>>(height * length_of(p.columns.inside(ox)));
        const auto packet = load_packet<N>(dy + p.pooled_offset({at.image, oy, ox, at.channel}));
        DEMI_UNROLL
        for (int n = 0; n < N; ++n) sum[n] += load(packet.at[n]) / elements;
      }
    }
    Packet<T, N> values;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) values.at[n] = store<T>(sum[n]);
    store_packet(dx + p.image_offset(at), values);
  });
}

template <class T, int N>
std::unique_ptr<Kernel> average_pool_kernel(const Problem& problem, Context& context) {
  const auto body = [problem, &context](const KernelArguments& arguments) {
    problem.for_launches([&](const Windows& p, std::int64_t first) {
      launch_positions(&average_pool<T, N>, p, p.rows.windows, p.columns.windows, N,
                       context.stream(), arguments.input<T>(0) + first * p.image_elements(),
                       arguments.output<T>(0) + first * p.pooled_elements());
    });
  };
  return make_kernel("packets", 0, body, problem.launches());
}

template <class T, int N>
std::unique_ptr<Kernel> average_pool_backward_kernel(const Problem& problem, Context& context) {
  const auto body = [problem, &context](const KernelArguments& arguments) {
    problem.for_launches([&](const Windows& p, std::int64_t first) {
      launch_positions(&average_pool_backward<T, N>, p, p.rows.extent, p.columns.extent, N,
                       context.stream(), arguments.input<T>(0) + first * p.pooled_elements(),
                       arguments.output<T>(0) + first * p.image_elements());
    });
  };
  return make_kernel("packets", 0, body, problem.launches());
}

}  // namespace

std::unique_ptr<Kernel> make_average_pool2d(const KernelRequest& request, Context& context,
                                            std::string& reason) {
  const auto problem =
      Problem::of(request, request.inputs[0].shape, request.outputs[0].shape, reason);
  if (!problem) return nullptr;
  return dispatch_packets(request.outputs[0].dtype, *problem, reason, [&](auto tag, auto length) {
    return average_pool_kernel<typename decltype(tag)::type, length()>(*problem, context);
  });
}

std::unique_ptr<Kernel> make_average_pool2d_backward(const KernelRequest& request, Context& context,
                                                     std::string& reason) {
  const auto problem =
      Problem::of(request, request.outputs[0].shape, request.inputs[0].shape, reason);
  if (!problem) return nullptr;
  return dispatch_packets(request.outputs[0].dtype, *problem, reason, [&](auto tag, auto length) {
    return average_pool_backward_kernel<typename decltype(tag)::type, length()>(*problem, context);
  });
}

}  // namespace demi::cuda::pooling
