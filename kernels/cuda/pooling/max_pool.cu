// Maximum over windows, and its gradient. Each element of a result is written once: nothing is
// cleared first, there are no atomics, and sums have one order.

#include <algorithm>
#include <numeric>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/pooling/register.h"
#include "kernels/cuda/pooling/windows.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/reduction/reduction.h"

namespace demi::cuda::pooling {
namespace {

/// y and place of the maximum of each window; either may be null: not wanted. kTiled: windows of 2
/// × 2 that lie in the image as a whole, whose loads the compiler can start together.
template <class T, int N, bool kTiled>
__global__ void max_pool(Windows p, bool with_relu, const T* x, T* y, std::uint8_t* index) {
  for_positions<N>(p, p.rows.windows, p.columns.windows, [&](const Position& at) {
    const T* image = x + at.image * p.image_elements() + at.channel;
    Range rows = p.rows.inside(at.row);
    Range columns = p.columns.inside(at.column);
    if constexpr (kTiled) {
      rows.end = rows.begin + 2;
      columns.end = columns.begin + 2;
    }
    Compute<T> best[N] = {};
    int place[N] = {};
    bool first = true;
    for (int i = rows.begin; i < rows.end; ++i) {
      for (int j = columns.begin; j < columns.end; ++j) {
        const auto packet = load_packet<N>(image + i * p.image_row() + j * p.channels);
        const int here = p.rows.place(i, at.row) * p.columns.size + p.columns.place(j, at.column);
        DEMI_UNROLL
        for (int n = 0; n < N; ++n) {
          const Compute<T> value = load(packet.at[n]);
          // Also true where the value is NaN, but not once the best is.
          if (first || (!(value <= best[n]) && best[n] == best[n])) {
            best[n] = value;
            place[n] = here;
          }
        }
        first = false;
      }
    }
    Packet<T, N> values;
    Packet<std::uint8_t, N> places;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      values.at[n] = store<T>(with_relu ? relu(best[n]) : best[n]);
      places.at[n] = static_cast<std::uint8_t>(place[n]);
    }
    const int to = p.pooled_offset(at);
    if (y != nullptr) store_packet(y + to, values);
    if (index != nullptr) store_packet(index + to, places);
  });
}

/// dy of N channels of a window, 0 where a relu masks it. `y` is null without relu.
template <class T, int N>
__device__ void load_gradient(const T* dy, const T* y, int at, Compute<T> (&gradient)[N]) {
  const auto packet = load_packet<N>(dy + at);
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) gradient[n] = load(packet.at[n]);
  if (y == nullptr) return;
  const auto mask = load_packet<N>(y + at);
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    if (!(load(mask.at[n]) > 0)) gradient[n] = 0;
  }
}

/// Where the sums of a max_pool_backward over all positions go.
struct ChannelSums {
  double* partials;  ///< [blocks, channels]; null: they are not wanted
  AnyOutput sums;    ///< [channels]
  unsigned* counter;
};

/// Adds up what the threads of a block have of the packet of channels that each of them has at all
/// its positions (sums_fit), then, in the last block, what the blocks have.
template <class C, int N>
__device__ void sum_channels(const Windows& p, const ChannelSums& to, const C (&own)[N]) {
  DEMI_SHARED(double, of_thread, [kThreads]);
  const int packets = p.channels / N;
  const int begin = static_cast<int>(blockIdx.x * std::int64_t{kThreads} % packets);
  const int thread = static_cast<int>(threadIdx.x);
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    __syncthreads();
    of_thread[thread] = own[n];
    __syncthreads();
    if (thread >= packets) continue;
    double sum = 0;
    for (int i = thread; i < kThreads; i += packets) sum += of_thread[i];
    const int channel = (begin + thread) % packets * N + n;
    to.partials[static_cast<std::int64_t>(blockIdx.x) * p.channels + channel] = sum;
  }
  if (!is_last_block(to.counter)) return;
  // Neighbouring threads have neighbouring channels; what threads are left share the blocks.
  const int width = p.channels < kThreads ? p.channels : kThreads;
  const int shares = kThreads / width;
  for (int first = 0; first < p.channels; first += width) {
    const int channel = first + thread % width;
    const bool has_part = thread < shares * width && channel < p.channels;
    double sum = 0;
    for (unsigned block = static_cast<unsigned>(thread / width); has_part && block < gridDim.x;
         block += static_cast<unsigned>(shares)) {
      sum += to.partials[static_cast<std::int64_t>(block) * p.channels + channel];
    }
    // is_last_block() has waited for the readers above; those of a pass before this one read only
    // what they wrote themselves, as there are as many channels as threads.
    of_thread[thread] = sum;
    __syncthreads();
    if (thread >= width || channel >= p.channels) continue;
    double total = 0;
    for (int share = 0; share < shares; ++share) total += of_thread[share * width + thread];
    to.sums.set(channel, total);
  }
}

/// dx at each image position: the dy of those of the windows over it whose maximum it was.
template <class T, int N>
__global__ void max_pool_backward(Windows p, const T* dy, const std::uint8_t* index, const T* y,
                                  T* dx, ChannelSums to) {
  Compute<T> total[N] = {};
  for_positions<N>(p, p.rows.extent, p.columns.extent, [&](const Position& at) {
    const Range rows = p.rows.covering(at.row);
    const Range columns = p.columns.covering(at.column);
    Compute<T> sum[N] = {};
    for (int oy = rows.begin; oy < rows.end; ++oy) {
      for (int ox = columns.begin; ox < columns.end; ++ox) {
        const int from = p.pooled_offset({at.image, oy, ox, at.channel});
        const auto places = load_packet<N>(index + from);
        Compute<T> gradient[N];
        load_gradient(dy, y, from, gradient);
        const int here = p.rows.place(at.row, oy) * p.columns.size + p.columns.place(at.column, ox);
        DEMI_UNROLL
        for (int n = 0; n < N; ++n) {
          if (places.at[n] == here) sum[n] += gradient[n];
        }
      }
    }
    Packet<T, N> values;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      values.at[n] = store<T>(sum[n]);
      total[n] += sum[n];
    }
    store_packet(dx + p.image_offset(at), values);
  });
  if (to.partials != nullptr) sum_channels(p, to, total);
}

/// The same where no windows overlap: each window writes all positions that it answers for, so dy
/// is read once.
template <class T, int N>
__global__ void max_pool_backward_disjoint(Windows p, const T* dy, const std::uint8_t* index,
                                           const T* y, T* dx, ChannelSums to) {
  Compute<T> total[N] = {};
  for_positions<N>(p, p.rows.windows, p.columns.windows, [&](const Position& at) {
    const Range rows = p.rows.owned(at.row);
    const Range columns = p.columns.owned(at.column);
    const int last_row = p.rows.inside(at.row).end;
    const int last_column = p.columns.inside(at.column).end;
    const int from = p.pooled_offset(at);
    const auto places = load_packet<N>(index + from);
    Compute<T> gradient[N];
    load_gradient(dy, y, from, gradient);
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) total[n] += gradient[n];
    for (int i = rows.begin; i < rows.end; ++i) {
      for (int j = columns.begin; j < columns.end; ++j) {
        const bool inside = i < last_row && j < last_column;
        const int here =
            inside ? p.rows.place(i, at.row) * p.columns.size + p.columns.place(j, at.column) : -1;
        Packet<T, N> values;
        DEMI_UNROLL
        for (int n = 0; n < N; ++n) {
          values.at[n] = store<T>(places.at[n] == here ? gradient[n] : Compute<T>(0));
        }
        store_packet(dx + p.image_offset({at.image, i, j, at.channel}), values);
      }
    }
  });
  if (to.partials != nullptr) sum_channels(p, to, total);
}

bool is_tiled(const Axis& axis) {
  return axis.size == 2 && axis.is_unpadded();
}

template <class T, int N>
std::unique_ptr<Kernel> max_pool_kernel(const Problem& problem, bool with_relu, Context& context) {
  const Windows& windows = problem.windows();
  const bool tiled = is_tiled(windows.rows) && is_tiled(windows.columns);
  const auto kernel = tiled ? &max_pool<T, N, true> : &max_pool<T, N, false>;
  const auto body = [=, &context](const KernelArguments& arguments) {
    T* const y = arguments.output<T>(0);
    const bool has_index = arguments.outputs.size() > 1;
    std::uint8_t* const index = has_index ? arguments.output<std::uint8_t>(1) : nullptr;
    problem.for_launches([&](const Windows& p, std::int64_t first) {
      const std::int64_t pooled = first * p.pooled_elements();
      launch_positions(kernel, p, p.rows.windows, p.columns.windows, N, context.stream(), with_relu,
                       arguments.input<T>(0) + first * p.image_elements(),
                       y == nullptr ? y : y + pooled, index == nullptr ? index : index + pooled);
    });
  };
  return make_kernel("packets", 0, body, problem.launches());
}

template <class T, int N>
std::unique_ptr<Kernel> max_pool_backward_kernel(const Problem& problem, bool with_relu,
                                                 Context& context) {
  const Windows& windows = problem.windows();
  const bool disjoint = windows.rows.is_disjoint() && windows.columns.is_disjoint();
  const auto kernel = disjoint ? &max_pool_backward_disjoint<T, N> : &max_pool_backward<T, N>;
  const auto body = [=, &context](const KernelArguments& arguments) {
    problem.for_launches([&](const Windows& p, std::int64_t first) {
      const std::int64_t pooled = first * p.pooled_elements();
      const int rows = disjoint ? p.rows.windows : p.rows.extent;
      const int columns = disjoint ? p.columns.windows : p.columns.extent;
      const T* y = with_relu ? arguments.input<T>(2) + pooled : nullptr;
      launch_positions(kernel, p, rows, columns, N, context.stream(),
                       arguments.input<T>(0) + pooled, arguments.input<std::uint8_t>(1) + pooled, y,
                       arguments.output<T>(0) + first * p.image_elements(), ChannelSums());
    });
  };
  return make_kernel("packets", 0, body, problem.launches());
}

/// Finds the places of the maxima again, in its workspace.
template <class T, int N>
std::unique_ptr<Kernel> max_pool_backward_from_image_kernel(const Problem& problem,
                                                            Context& context) {
  std::shared_ptr<Kernel> find = max_pool_kernel<T, N>(problem, false, context);
  std::shared_ptr<Kernel> scatter = max_pool_backward_kernel<T, N>(problem, false, context);
  const auto bytes = static_cast<std::size_t>(problem.images()) *
                     static_cast<std::size_t>(problem.windows().pooled_elements());
  const auto body = [=](const KernelArguments& a) {
    void* const found[] = {nullptr, a.workspace};
    find->run({a.inputs.subspan(1, 1), found, nullptr});
    const void* const known[] = {a.inputs[0], a.workspace};
    scatter->run({known, a.outputs, nullptr});
  };
  return make_kernel("packets_from_image", bytes, body, find->launches() + scatter->launches());
}

/// Blocks of a launch in which each thread keeps to one packet of channels.
unsigned blocks_in_step(std::int64_t items, int packets, const Context& context) {
  const unsigned most = 4 * static_cast<unsigned>(context.properties().multiprocessors);
  const unsigned blocks = blocks_for(items, kThreads, std::max(most, 1U));
  const auto unit = static_cast<unsigned>(packets / std::gcd(packets, kThreads));
  return (blocks + unit - 1) / unit * unit;
}

/// The gradient and its sums over the positions, in one launch.
template <class T, int N>
std::unique_ptr<Kernel> max_pool_backward_sum_kernel(const Problem& problem, bool with_relu,
                                                     DType sums, Context& context) {
  Windows p = problem.windows();
  p.images = static_cast<int>(problem.images());
  const bool disjoint = p.rows.is_disjoint() && p.columns.is_disjoint();
  const auto kernel = disjoint ? &max_pool_backward_disjoint<T, N> : &max_pool_backward<T, N>;
  const int packets = p.channels / N;
  const int positions =
      disjoint ? p.rows.windows * p.columns.windows : p.rows.extent * p.columns.extent;
  const unsigned blocks =
      blocks_in_step(std::int64_t{p.images} * positions * packets, packets, context);
  const std::size_t bytes = std::size_t{blocks} * static_cast<std::size_t>(p.channels);
  const auto body = [=, counter = context.block_counter(),
                     &context](const KernelArguments& arguments) {
    const ChannelSums to = {static_cast<double*>(arguments.workspace),
                            AnyOutput(arguments.outputs[1], sums), counter};
    launch(kernel, blocks, kThreads, 0, context.stream(), p, arguments.input<T>(0),
           arguments.input<std::uint8_t>(1), with_relu ? arguments.input<T>(2) : nullptr,
           arguments.output<T>(0), to);
  };
  return make_kernel("packets_and_sums", bytes * sizeof(double), body);
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool2d(const KernelRequest& request, Context& context,
                                        std::string& reason) {
  const auto problem =
      Problem::of(request, request.inputs[0].shape, request.outputs[0].shape, reason);
  if (!problem) return nullptr;
  const bool with_relu = request.attributes.as<ops::Pool2DAttributes>().relu;
  return dispatch_packets(request.outputs[0].dtype, *problem, reason, [&](auto tag, auto length) {
    return max_pool_kernel<typename decltype(tag)::type, length()>(*problem, with_relu, context);
  });
}

std::unique_ptr<Kernel> make_max_pool2d_backward_sum(const KernelRequest& request, Context& context,
                                                     std::string& reason) {
  const auto& attributes = request.attributes.as<ops::Pool2DAttributes>();
  if (!attributes.bias_gradient) {
    reason = "no sums are wanted";
    return nullptr;
  }
  const auto problem =
      Problem::of(request, request.outputs[0].shape, request.inputs[0].shape, reason);
  if (!problem) return nullptr;
  return dispatch_packets(request.outputs[0].dtype, *problem, reason, [&](auto tag, auto length) {
    std::unique_ptr<Kernel> kernel;
    if (problem->launches() != 1 || problem->windows().channels / length() > kThreads) {
      reason = "it is of one launch and at most 256 packets of channels";
    } else {
      kernel = max_pool_backward_sum_kernel<typename decltype(tag)::type, length()>(
          *problem, attributes.relu, request.outputs[1].dtype, context);
    }
    return kernel;
  });
}

std::unique_ptr<Kernel> make_max_pool2d_backward_then_sum(const KernelRequest& request,
                                                          Context& context, std::string& reason) {
  auto attributes = request.attributes.as<ops::Pool2DAttributes>();
  if (!attributes.bias_gradient) {
    reason = "no sums are wanted";
    return nullptr;
  }
  attributes.bias_gradient = false;
  const Attributes alone = attributes;
  std::shared_ptr<Kernel> scatter = make_max_pool2d_backward(
      {request.op, alone, request.inputs, request.outputs.first(1)}, context, reason);
  if (scatter == nullptr) return nullptr;
  std::shared_ptr<Kernel> sum = make_reduction(Reduction::kSum, request.outputs[0], AxisSet{0b111},
                                               request.outputs[1].dtype, context);
  const auto body = [scatter, sum](const KernelArguments& a) {
    scatter->run({a.inputs, a.outputs.first(1), a.workspace});
    const void* image = a.outputs[0];
    sum->run({{&image, 1}, a.outputs.subspan(1), a.workspace});
  };
  return make_kernel("packets_then_sum", sum->workspace_bytes(), body,
                     scatter->launches() + sum->launches());
}

std::unique_ptr<Kernel> make_max_pool2d_backward_from_image(const KernelRequest& request,
                                                            Context& context, std::string& reason) {
  if (!request.attributes.as<ops::Pool2DAttributes>().from_image) {
    reason = "the index is given";
    return nullptr;
  }
  const auto problem =
      Problem::of(request, request.outputs[0].shape, request.inputs[0].shape, reason);
  if (!problem) return nullptr;
  return dispatch_packets(request.outputs[0].dtype, *problem, reason, [&](auto tag, auto length) {
    return max_pool_backward_from_image_kernel<typename decltype(tag)::type, length()>(*problem,
                                                                                       context);
  });
}

std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelRequest& request, Context& context,
                                                 std::string& reason) {
  const auto& attributes = request.attributes.as<ops::Pool2DAttributes>();
  if (attributes.bias_gradient || attributes.from_image) {
    reason = attributes.from_image ? "no index is given" : "sums are wanted";
    return nullptr;
  }
  const auto problem =
      Problem::of(request, request.outputs[0].shape, request.inputs[0].shape, reason);
  if (!problem) return nullptr;
  return dispatch_packets(request.outputs[0].dtype, *problem, reason, [&](auto tag, auto length) {
    return max_pool_backward_kernel<typename decltype(tag)::type, length()>(
        *problem, attributes.relu, context);
  });
}

}  // namespace demi::cuda::pooling
