// Reductions over axes on the device.
//
// Note [Reductions on the device]
// After merging neighbouring axes the innermost one is either reduced or kept.
//  * Reduced ("rows"): a group of lanes, or a block, reduces one output.
//  * Kept ("columns"): neighbouring threads hold neighbouring columns, in packets where they fit,
//  so
//    that loads are coalesced; the rows of a block are reduced in shared memory.
// Where there are few outputs, what is behind each is split among blocks; the partial results go to
// the workspace, all of one output together, and are reduced as rows by a second launch. Splits
// depend on the shape alone, and nothing on timing. Threads add up to kRun elements in float before
// they go on in double.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/index_map.cuh"
#include "kernels/cuda/packet.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/registry.h"

namespace demi::cuda {

inline constexpr int kReductionThreads = 256;
inline constexpr int kRun = 512;
inline constexpr std::int64_t kMostSplits = 256;

/// Partial results are kept in this type.
template <class C>
using Partial = std::conditional_t<std::is_same_v<C, float>, double, C>;

template <class Op, class C>
__host__ __device__ C identity_of() {
  if constexpr (std::is_same_v<Op, Sum>) {
    return C{0};
  } else if constexpr (std::is_integral_v<C>) {
    return kLowest<C>;
  } else {
    return -kInfinity<C>;
  }
}

/// Where results go: a quotient by `divisor` in the output, or `partial` ones in the workspace.
struct Destination {
  AnyOutput output;
  void* partial;  ///< null: to the output
  std::int64_t splits;
  std::int64_t divisor;
  std::int64_t floating;  ///< flag: the dtype of the output

  template <class P>
  __device__ void deliver(std::int64_t index, std::int64_t split, P value) const {
    if (partial != nullptr) {
      static_cast<P*>(partial)[index * splits + split] = value;
    } else if (floating != 0) {
      output.set(index, static_cast<double>(value) / static_cast<double>(divisor));
    } else {
      output.set(index, value);
    }
  }
};

/// Rows of `count` elements in runs of `inner`; each cut into splits of `split_length`.
struct Rows {
  std::int64_t outputs, count, inner;
  std::int64_t split_length;
  IndexMap kept, reduced;

  /// Offset of element i of a row.
  __device__ std::int64_t element(std::int64_t i) const {
    if (reduced.rank == 0) return i;
    const std::int64_t run = i / inner;
    return reduced.offset(run) + (i - run * inner);
  }
};

/// Elements first, first + step, … below `end`, `kN` neighbours each.
template <class Op, int kN, class T>
__device__ Partial<Accumulator<T>> reduce_elements(const T* x, const Rows& rows, std::int64_t first,
                                                   std::int64_t end, std::int64_t step) {
  using C = Accumulator<T>;
  const Op op;
  Partial<C> total = identity_of<Op, Partial<C>>();
  for (std::int64_t i = first; i < end;) {
    C run = identity_of<Op, C>();
    for (int taken = 0; taken < kRun && i < end; taken += kN, i += step) {
      if constexpr (kN == 1) {
        run = op(run, convert_element<C>(x[rows.element(i)]));
      } else {
        const Packet<T, kN> packet = load_packet<kN>(x + i);
        DEMI_UNROLL
        for (int n = 0; n < kN; ++n) run = op(run, convert_element<C>(packet.at[n]));
      }
    }
    total = op(total, static_cast<Partial<C>>(run));
  }
  return total;
}

/// `width` lanes an output.
template <class Op, int kN, class T>
__global__ void reduce_rows_by_lanes(Rows rows, const T* x, Destination to, int width) {
  const std::int64_t groups = thread_count() / width;
  const std::int64_t lane = threadIdx.x % static_cast<unsigned>(width);
  // The same for all lanes of a warp, which meet in reduce_lanes.
  const std::int64_t rounds = (rows.outputs + groups - 1) / groups;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t output = round * groups + thread_number() / width;
    const bool inside = output < rows.outputs;
    const std::int64_t base = inside ? rows.kept.offset(output) : 0;
    auto total = reduce_elements<Op, kN>(x + base, rows, lane * kN, inside ? rows.count : 0,
                                         static_cast<std::int64_t>(width) * kN);
    total = reduce_lanes(total, width, Op{});
    if (inside && lane == 0) to.deliver(output, 0, total);
  }
}

/// A block an output and split.
template <class Op, int kN, class T>
__global__ void reduce_rows_by_blocks(Rows rows, const T* x, Destination to) {
  const std::int64_t tasks = rows.outputs * to.splits;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t output = task / to.splits;
    const std::int64_t split = task % to.splits;
    const std::int64_t begin = split * rows.split_length;
    const std::int64_t end =
        begin + rows.split_length < rows.count ? begin + rows.split_length : rows.count;
    auto total = reduce_elements<Op, kN>(x + rows.kept.offset(output), rows,
                                         begin + static_cast<std::int64_t>(threadIdx.x) * kN, end,
                                         static_cast<std::int64_t>(blockDim.x) * kN);
    total = reduce_block(total, Op{});
    if (threadIdx.x == 0) to.deliver(output, split, total);
  }
}

/// Tiles of `width` packets of columns by blockDim.x / width rows at a time.
struct Columns {
  std::int64_t tiles, tiles_across;  ///< tiles_across: those of one combination of outer axes
  std::int64_t inner, rows;
  std::int64_t split_length;  ///< rows
  int width;                  ///< threads side by side, a power of two
  IndexMap kept, reduced;
};

template <class Op, int kN, class T>
__device__ void reduce_column(const T* x, const Columns& columns, std::int64_t first,
                              std::int64_t end, int step, Partial<Accumulator<T>> (&total)[kN]) {
  using C = Accumulator<T>;
  const Op op;
  for (std::int64_t row = first; row < end;) {
    C run[kN];
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) run[n] = identity_of<Op, C>();
    for (int taken = 0; taken < kRun && row < end; ++taken, row += step) {
      const Packet<T, kN> packet = load_packet<kN>(x + columns.reduced.offset(row));
      DEMI_UNROLL
      for (int n = 0; n < kN; ++n) run[n] = op(run[n], convert_element<C>(packet.at[n]));
    }
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) total[n] = op(total[n], static_cast<Partial<C>>(run[n]));
  }
}

template <class Op, int kN, class T>
__global__ void reduce_columns(Columns columns, const T* x, Destination to) {
  using P = Partial<Accumulator<T>>;
  DEMI_SHARED(P, of_thread, [kReductionThreads]);
  const int width = columns.width;
  const int across = static_cast<int>(threadIdx.x) % width;
  const int down = static_cast<int>(threadIdx.x) / width;
  const int height = static_cast<int>(blockDim.x) / width;
  const std::int64_t tasks = columns.tiles * to.splits;
  for (std::int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const std::int64_t tile = task / to.splits;
    const std::int64_t split = task % to.splits;
    const std::int64_t outer = tile / columns.tiles_across;
    const std::int64_t column = (tile % columns.tiles_across * width + across) * kN;
    const std::int64_t begin = split * columns.split_length;
    const std::int64_t end =
        begin + columns.split_length < columns.rows ? begin + columns.split_length : columns.rows;
    const bool inside = column < columns.inner;
    P total[kN];
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) total[n] = identity_of<Op, P>();
    if (inside) {
      reduce_column<Op, kN>(x + columns.kept.offset(outer) + column, columns, begin + down, end,
                            height, total);
    }
    DEMI_UNROLL
    for (int n = 0; n < kN; ++n) {
      __syncthreads();
      of_thread[threadIdx.x] = total[n];
      for (int half = height / 2; half > 0; half /= 2) {
        __syncthreads();
        if (down < half) {
          of_thread[threadIdx.x] =
              Op{}(of_thread[threadIdx.x], of_thread[threadIdx.x + half * width]);
        }
      }
      if (inside && down == 0) {
        to.deliver(outer * columns.inner + column + n, split, of_thread[threadIdx.x]);
      }
    }
  }
}

// ---- Plans ----------------------------------------------------------------------------------

inline int power_of_two_from(std::int64_t count, int most) {
  int power = 1;
  while (power < most && power < count) power *= 2;
  return power;
}

/// How many splits of at least `least` of `count` items make about kMostSplits tasks.
inline std::int64_t splits_of(std::int64_t tasks, std::int64_t count, std::int64_t least) {
  return std::clamp<std::int64_t>(kMostSplits / std::max<std::int64_t>(tasks, 1), 1,
                                  std::max<std::int64_t>(count / least, 1));
}

inline unsigned task_blocks(std::int64_t tasks) {
  return blocks_for(tasks, 1);
}

/// The launch that reduces rows of `count` contiguous elements as splits leave them.
template <class Op, class P>
void launch_partials(const void* partial, const Destination& to, std::int64_t outputs,
                     cudaStream_t stream) {
  const Rows rows = {
      outputs, to.splits, to.splits, to.splits, contiguous_rows(outputs, to.splits), IndexMap{}};
  Destination final = to;
  final.partial = nullptr;
  launch(&reduce_rows_by_lanes<Op, 1, P>, blocks_for(outputs * 32, kReductionThreads),
         kReductionThreads, 0, stream, rows, static_cast<const P*>(partial), final, 32);
}

template <class Op, int kN, class T>
std::unique_ptr<Kernel> make_rows(const ReductionLayout& layout, const Destination& to,
                                  Context& context) {
  using P = Partial<Accumulator<T>>;
  constexpr std::int64_t kByLanes = 1024;  // longer rows take a block
  constexpr std::int64_t kLeast = 16384;   // elements of a split
  const bool by_lanes = layout.reduced_count <= kByLanes;
  Rows rows = {layout.outputs,         layout.reduced_count,     layout.inner, 0,
               index_map(layout.kept), index_map(layout.reduced)};
  Destination planned = to;
  planned.splits = by_lanes ? 1 : splits_of(layout.outputs, layout.reduced_count, kLeast);
  // Whole packets, so that all splits begin at one.
  const std::int64_t length = (layout.reduced_count + planned.splits - 1) / planned.splits;
  rows.split_length = (length + kN - 1) / kN * kN;
  const int width = power_of_two_from((layout.reduced_count + kN - 1) / kN, 32);
  const std::size_t workspace =
      planned.splits == 1 ? 0 : static_cast<std::size_t>(planned.splits * rows.outputs) * sizeof(P);
  const auto body = [=, &context](const KernelArguments& a) {
    Destination bound = planned;
    bound.output.data = a.outputs[0];
    if (by_lanes) {
      launch(&reduce_rows_by_lanes<Op, kN, T>, blocks_for(rows.outputs * width, kReductionThreads),
             kReductionThreads, 0, context.stream(), rows, a.input<T>(0), bound, width);
      return;
    }
    if (bound.splits > 1) bound.partial = a.workspace;
    launch(&reduce_rows_by_blocks<Op, kN, T>, task_blocks(rows.outputs * bound.splits),
           kReductionThreads, 0, context.stream(), rows, a.input<T>(0), bound);
    if (bound.splits > 1) {
      launch_partials<Op, P>(a.workspace, bound, rows.outputs, context.stream());
    }
  };
  return make_kernel(by_lanes ? "rows_by_lanes" : "rows_by_blocks", workspace, body,
                     planned.splits > 1 ? 2 : 1);
}

template <class Op, int kN, class T>
std::unique_ptr<Kernel> make_columns(const ReductionLayout& layout, const Destination& to,
                                     Context& context) {
  using P = Partial<Accumulator<T>>;
  Columns columns;
  columns.inner = layout.inner;
  columns.rows = layout.reduced_count;
  columns.kept = index_map(layout.kept);
  columns.reduced = index_map(layout.reduced);
  columns.width = power_of_two_from((layout.inner + kN - 1) / kN, 32);
  const std::int64_t across = columns.width * kN;
  columns.tiles_across = (layout.inner + across - 1) / across;
  columns.tiles = layout.kept.count() * columns.tiles_across;
  Destination planned = to;
  const std::int64_t height = kReductionThreads / columns.width;
  planned.splits = splits_of(columns.tiles, columns.rows, 8 * height);
  columns.split_length = (columns.rows + planned.splits - 1) / planned.splits;
  const std::size_t workspace =
      planned.splits == 1 ? 0
                          : static_cast<std::size_t>(planned.splits * layout.outputs) * sizeof(P);
  const auto body = [=, outputs = layout.outputs, &context](const KernelArguments& a) {
    Destination bound = planned;
    bound.output.data = a.outputs[0];
    if (bound.splits > 1) bound.partial = a.workspace;
    launch(&reduce_columns<Op, kN, T>, task_blocks(columns.tiles * bound.splits), kReductionThreads,
           0, context.stream(), columns, a.input<T>(0), bound);
    if (bound.splits > 1) {
      launch_partials<Op, P>(a.workspace, bound, outputs, context.stream());
    }
  };
  return make_kernel("columns", workspace, body, planned.splits > 1 ? 2 : 1);
}

/// Results of nothing: zeros.
std::unique_ptr<Kernel> inline make_zeros(const ReductionLayout& layout, DType result,
                                          Context& context) {
  const std::size_t bytes = static_cast<std::size_t>(layout.outputs) * size_of(result);
  return make_kernel("zeros", 0, [bytes, &context](const KernelArguments& a) {
    if (bytes > 0) DEMI_CUDA_CHECK(cudaMemsetAsync(a.outputs[0], 0, bytes, context.stream()));
  });
}

/// The kernel of make_sum and make_max.
template <class Op>
std::unique_ptr<Kernel> make_axes_kernel(const TensorType& x, AxisSet axes, bool mean, DType result,
                                         Context& context) {
  const ReductionLayout layout = reduction_layout(x.shape, axes);
  if (layout.reduced_count == 0 || layout.outputs == 0) return make_zeros(layout, result, context);
  const Destination to = {
      {nullptr, result}, nullptr, 1, mean ? layout.reduced_count : 1, is_floating(result) ? 1 : 0};
  std::string reason;
  return dispatch_any(x.dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
    using T = typename decltype(tag)::type;
    constexpr int kN = std::is_integral_v<T> ? 1 : kPacketLength<T>;
    const bool packets = layout.inner % kN == 0;
    if (layout.inner_kept) {
      return packets ? make_columns<Op, kN, T>(layout, to, context)
                     : make_columns<Op, 1, T>(layout, to, context);
    }
    // Packets of a row must follow each other.
    return packets && layout.reduced.rank == 0 ? make_rows<Op, kN, T>(layout, to, context)
                                               : make_rows<Op, 1, T>(layout, to, context);
  });
}

}  // namespace demi::cuda
