// The sums over the rows of x that batch_norm needs for each channel, in two stages: of a chunk by
// a block, then over the chunks, each in a fixed order.
#pragma once

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/batch_norm/layout.cuh"

namespace demi::cuda::batch_norm {

/// Mean of `count` values of each of N channels and the sum of the squared deviations from it.
template <class C, int N>
struct Moments {
  C count = 0;
  C mean[N] = {};
  C squares[N] = {};

  /// Welford, "Note on a method for calculating corrected sums of squares and products" (1962):
  /// nothing is lost where the mean is large, as it would be in a sum of squares.
  template <class T>
  __device__ void add(const Packet<T, N>& packet) {
    count += 1;
    const C weight = 1 / count;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      const C value = load(packet.at[n]);
      const C deviation = value - mean[n];
      mean[n] += deviation * weight;
      squares[n] += deviation * (value - mean[n]);
    }
  }
};

/// partials [chunks, 2, channels]: mean and sum of squared deviations of each chunk.
template <class T, int N>
__global__ void chunk_moments(Layout layout, const T* x, double* partials) {
  using C = Compute<T>;
  DEMI_SHARED(C, counts, [kThreads]);
  DEMI_SHARED(C, means, [N][kThreads]);
  DEMI_SHARED(C, squares, [N][kThreads]);
  const Part part(layout);
  const unsigned self = threadIdx.x;
  Moments<C, N> own;
  for_rows(layout, part, [&](std::int64_t at) { own.add(load_packet<N>(x + at)); });
  const auto show = [&] {
    counts[self] = own.count;
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      means[n][self] = own.mean[n];
      squares[n][self] = own.squares[n];
    }
  };
  show();
  __syncthreads();
  for (int half = layout.block_rows / 2; half > 0; half /= 2) {
    const unsigned other = self + static_cast<unsigned>(half * layout.lanes);
    if (part.thread_row < half && counts[other] > 0) {
      const C total = own.count + counts[other];
      const C share = counts[other] / total;
      DEMI_UNROLL
      for (int n = 0; n < N; ++n) {
        const C distance = means[n][other] - own.mean[n];
        own.mean[n] += distance * share;
        own.squares[n] += squares[n][other] + distance * distance * own.count * share;
      }
      own.count = total;
      show();
    }
    __syncthreads();
  }
  if (part.thread_row != 0 || part.channel >= layout.channels) return;
  double* to = partials + static_cast<std::int64_t>(part.chunk) * 2 * layout.channels;
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    to[part.channel + n] = own.mean[n];
    to[layout.channels + part.channel + n] = own.squares[n];
  }
}

/// dy, 0 where a relu masks it. `y` is null without relu.
template <class T, int N>
__device__ inline void load_gradient(const T* dy, const T* y, std::int64_t at,
                                     Compute<T> (&gradient)[N]) {
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

/// partials [chunks, 2, channels]: the sums over each chunk of d and of d · (x - mean), d being dy
/// behind the relu.
template <class T, int N>
__global__ void chunk_products(Layout layout, const T* dy, const T* x, const T* y, AnyInput mean,
                               double* partials) {
  using C = Compute<T>;
  DEMI_SHARED(C, sums, [2][N][kThreads]);
  const Part part(layout);
  const unsigned self = threadIdx.x;
  C centre[N] = {};
  C sum[2][N] = {};
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    if (part.channel < layout.channels) centre[n] = mean.get<C>(part.channel + n);
  }
  for_rows(layout, part, [&](std::int64_t at) {
    C gradient[N];
    load_gradient(dy, y, at, gradient);
    const auto values = load_packet<N>(x + at);
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      sum[0][n] += gradient[n];
      sum[1][n] += gradient[n] * (load(values.at[n]) - centre[n]);
    }
  });
  const auto show = [&] {
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      sums[0][n][self] = sum[0][n];
      sums[1][n][self] = sum[1][n];
    }
  };
  show();
  __syncthreads();
  for (int half = layout.block_rows / 2; half > 0; half /= 2) {
    if (part.thread_row < half) {
      const unsigned other = self + static_cast<unsigned>(half * layout.lanes);
      DEMI_UNROLL
      for (int n = 0; n < N; ++n) {
        sum[0][n] += sums[0][n][other];
        sum[1][n] += sums[1][n][other];
      }
      show();
    }
    __syncthreads();
  }
  if (part.thread_row != 0 || part.channel >= layout.channels) return;
  double* to = partials + static_cast<std::int64_t>(part.chunk) * 2 * layout.channels;
  DEMI_UNROLL
  for (int n = 0; n < N; ++n) {
    to[part.channel + n] = sum[0][n];
    to[layout.channels + part.channel + n] = sum[1][n];
  }
}

/// Threads of the second stage: kChannelsAtOnce channels by kChunkRows.
inline constexpr int kChannelsAtOnce = 32;
inline constexpr int kChunkRows = kThreads / kChannelsAtOnce;

/// The channel of this thread in the second stage; may be beyond the last.
__device__ inline int final_channel() {
  return static_cast<int>(blockIdx.x * kChannelsAtOnce + threadIdx.x % kChannelsAtOnce);
}

/// The sum of term(chunk) over all chunks; every thread gets that of its channel. A kernel calls it
/// once for each type of `term`, which has shared memory of its own.
template <class Term>
__device__ inline double sum_chunks(const Layout& layout, Term&& term) {
  DEMI_SHARED(double, sums, [kChunkRows][kChannelsAtOnce]);
  const int column = static_cast<int>(threadIdx.x) % kChannelsAtOnce;
  const int row = static_cast<int>(threadIdx.x) / kChannelsAtOnce;
  double sum = 0;
  if (final_channel() < layout.channels) {
    for (int chunk = row; chunk < layout.chunks; chunk += kChunkRows) sum += term(chunk);
  }
  sums[row][column] = sum;
  __syncthreads();
  double total = 0;
  for (int i = 0; i < kChunkRows; ++i) total += sums[i][column];
  return total;
}

inline unsigned final_blocks(const Layout& layout) {
  return static_cast<unsigned>((layout.channels + kChannelsAtOnce - 1) / kChannelsAtOnce);
}

}  // namespace demi::cuda::batch_norm
