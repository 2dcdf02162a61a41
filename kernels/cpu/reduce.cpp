#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/ranges.h"
#include "src/core/check.h"
#include "src/core/reduction_layout.h"

namespace demi::cpu {
namespace {

// Note [Reductions]
// After merging neighbouring axes the innermost one is either reduced or kept.
//  * Reduced ("rows"): each output is the reduction of contiguous runs.
//  * Kept ("columns"): `width` outputs are accumulated at a time, from rows of that width. Narrow
//    rows that follow each other are taken together as one wide row, folded at the end.
// Outputs that have more than kSegment elements to reduce get them in segments of fixed length, so
// that threads share the work of few outputs; the partial results go to the workspace and are
// combined in order.
constexpr std::int64_t kSegment = 32768;  // elements
constexpr std::int64_t kBlock = 512;      // elements converted or accumulated at a time
constexpr std::int64_t kWide = 256;       // what narrow rows are joined to

struct Sum {
  template <class C>
  static constexpr C identity = C{0};
  template <class C>
  static C combine(C a, C b) {
    if constexpr (std::is_integral_v<C>) {  // wraps around
      return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    }
    return a + b;
  }
};

struct Max {
  template <class C>
  static constexpr C identity = std::numeric_limits<C>::has_infinity
                                    ? -std::numeric_limits<C>::infinity()
                                    : std::numeric_limits<C>::lowest();
  template <class C>
  static C combine(C a, C b) {
    return b > a || b != b ? b : a;  // a NaN wins
  }
};

/// Partial results are combined in this type.
template <class C>
using Partial = std::conditional_t<std::is_same_v<C, float>, double, C>;

/// The elements of a contiguous run as C.
template <class C>
struct Source {
  ConvertFn load;  ///< null: they are C already
  std::int64_t size;

  [[nodiscard]] const C* block(const void* x, std::int64_t offset, std::int64_t n,
                               C* buffer) const {
    const char* from = static_cast<const char*>(x) + offset * size;
    if (load == nullptr) return reinterpret_cast<const C*>(from);
    load(from, buffer, n);
    return buffer;
  }
};

template <class Op, class C>
C reduce_block(const C* x, std::int64_t n) {
  constexpr int kLanes = 32;
  if (n < kLanes) {
    C total = Op::template identity<C>;
    for (std::int64_t i = 0; i < n; ++i) total = Op::combine(total, x[i]);
    return total;
  }
  C lanes[kLanes];
  for (C& lane : lanes) lane = Op::template identity<C>;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] = Op::combine(lanes[j], x[i + j]);
  }
  for (int j = 0; i < n; ++i, ++j) lanes[j] = Op::combine(lanes[j], x[i]);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lanes[j] = Op::combine(lanes[j], lanes[j + half]);
  }
  return lanes[0];
}

template <class Op, class C>
void accumulate(C* into, const C* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) into[j] = Op::combine(into[j], x[j]);
}

/// Base of both kernels. Result is C, or double for the mean of integers.
template <class Op, class C, class Result>
class ReductionKernel : public Kernel {
 public:
  ReductionKernel(std::string name, const ReductionLayout& layout, const TensorType& x, bool mean,
                  DType result, std::int64_t segments, ThreadPool& pool)
      : Kernel(std::move(name), segments > 1 ? static_cast<std::size_t>(segments * layout.outputs) *
                                                   sizeof(Partial<C>)
                                             : 0),
        layout_(layout),
        source_{x.dtype == dtype_of<C> ? nullptr : converter(x.dtype, dtype_of<C>),
                static_cast<std::int64_t>(size_of(x.dtype))},
        segments_(segments),
        divisor_(mean ? std::max<std::int64_t>(layout.reduced_count, 1) : 1),
        store_(converter(dtype_of<Result>, result)),
        result_size_(static_cast<std::int64_t>(size_of(result))),
        pool_(pool) {}

  void run(const KernelArguments& arguments) final {
    if (layout_.outputs == 0) return;
    if (layout_.reduced_count == 0) {
      fill_empty(arguments);
    } else {
      reduce(arguments);
      if (segments_ > 1) combine_segments(arguments);
    }
  }

 protected:
  virtual void reduce(const KernelArguments& arguments) = 0;

  template <class Value>
  [[nodiscard]] Result finish(Value value) const {
    if constexpr (std::is_integral_v<Result>) {
      return static_cast<Result>(value);
    } else {
      using Wide = std::conditional_t<std::is_integral_v<Value>, double, Value>;
      return static_cast<Result>(static_cast<Wide>(value) / static_cast<Wide>(divisor_));
    }
  }

  void store(const KernelArguments& arguments, std::int64_t first, std::int64_t n,
             const Result* results) const {
    store_(results, arguments.output<char>(0) + first * result_size_, n);
  }

  /// Brings the accumulated values of outputs [first, first + n), n ≤ kBlock, in segment `segment`
  /// to where they belong.
  template <class Value>
  void deliver(const KernelArguments& arguments, std::int64_t segment, std::int64_t first,
               std::int64_t n, const Value* values) const {
    if (segments_ > 1) {
      auto* partial = static_cast<Partial<C>*>(arguments.workspace);
      std::copy(values, values + n, partial + segment * layout_.outputs + first);
      return;
    }
    Result results[kBlock];
    for (std::int64_t i = 0; i < n; ++i) results[i] = finish(values[i]);
    store(arguments, first, n, results);
  }

  const ReductionLayout layout_;
  const Source<C> source_;
  const std::int64_t segments_;
  const std::int64_t divisor_;
  const ConvertFn store_;
  const std::int64_t result_size_;
  ThreadPool& pool_;

 private:
  void fill_empty(const KernelArguments& arguments) const {
    Result zeros[kBlock] = {};
    for (std::int64_t at = 0; at < layout_.outputs; at += kBlock) {
      store(arguments, at, std::min(kBlock, layout_.outputs - at), zeros);
    }
  }

  void combine_segments(const KernelArguments& arguments) {
    const auto* partial = static_cast<const Partial<C>*>(arguments.workspace);
    for_ranges(pool_, layout_.outputs, kBlock, [&](std::int64_t begin, std::int64_t end) {
      Partial<C> total[kBlock];
      const std::int64_t n = end - begin;
      std::copy(partial + begin, partial + end, total);
      for (std::int64_t s = 1; s < segments_; ++s) {
        accumulate<Op>(total, partial + s * layout_.outputs + begin, n);
      }
      Result results[kBlock];
      for (std::int64_t i = 0; i < n; ++i) results[i] = finish(total[i]);
      store(arguments, begin, n, results);
    });
  }
};

template <class Op, class C, class Result>
class RowsKernel final : public ReductionKernel<Op, C, Result> {
 public:
  RowsKernel(const ReductionLayout& layout, const TensorType& x, bool mean, DType result,
             ThreadPool& pool)
      : ReductionKernel<Op, C, Result>("rows", layout, x, mean, result,
                                       (layout.reduced_count + kSegment - 1) / kSegment, pool) {}

 private:
  void reduce(const KernelArguments& arguments) override {
    const ReductionLayout& layout = this->layout_;
    const std::int64_t outputs_at_once =
        std::clamp<std::int64_t>(kSegment / layout.reduced_count, 1, kBlock);
    const std::int64_t groups = (layout.outputs + outputs_at_once - 1) / outputs_at_once;
    this->pool_.parallel_for(groups * this->segments_, [&](std::int64_t task, int) {
      const std::int64_t segment = task % this->segments_;
      const std::int64_t first = task / this->segments_ * outputs_at_once;
      const std::int64_t n = std::min(outputs_at_once, layout.outputs - first);
      const std::int64_t begin = segment * kSegment;
      const std::int64_t end = std::min(begin + kSegment, layout.reduced_count);
      Partial<C> values[kBlock];
      for (std::int64_t i = 0; i < n; ++i) {
        values[i] = reduce_range(arguments.inputs[0], layout.kept.offset(first + i), begin, end);
      }
      this->deliver(arguments, segment, first, n, values);
    });
  }

  /// The reduction of elements [begin, end) of those behind one output.
  [[nodiscard]] Partial<C> reduce_range(const void* x, std::int64_t base, std::int64_t begin,
                                        std::int64_t end) const {
    alignas(64) C buffer[kBlock];
    Partial<C> total = Op::template identity<Partial<C>>;
    std::int64_t row = begin / this->layout_.inner;
    std::int64_t within = begin % this->layout_.inner;
    while (begin < end) {
      const std::int64_t n = std::min({kBlock, this->layout_.inner - within, end - begin});
      const C* block =
          this->source_.block(x, base + this->layout_.reduced.offset(row) + within, n, buffer);
      total = Op::combine(total, static_cast<Partial<C>>(reduce_block<Op>(block, n)));
      begin += n;
      within += n;
      if (within == this->layout_.inner) {
        within = 0;
        ++row;
      }
    }
    return total;
  }
};

template <class Op, class C, class Result>
class ColumnsKernel final : public ReductionKernel<Op, C, Result> {
 public:
  ColumnsKernel(const ReductionLayout& layout, const TensorType& x, bool mean, DType result,
                ThreadPool& pool)
      : ReductionKernel<Op, C, Result>(
            "columns", layout, x, mean, result,
            (layout.reduced_count + rows_of_segment(layout) - 1) / rows_of_segment(layout), pool) {}

 private:
  static std::int64_t columns_at_once(const ReductionLayout& layout) {
    return std::min(layout.inner, kBlock);
  }
  static std::int64_t rows_of_segment(const ReductionLayout& layout) {
    return kSegment / std::max<std::int64_t>(columns_at_once(layout), 1);
  }

  void reduce(const KernelArguments& arguments) override {
    const ReductionLayout& layout = this->layout_;
    const std::int64_t columns = columns_at_once(layout);
    const std::int64_t column_blocks = (layout.inner + columns - 1) / columns;
    const std::int64_t tiles = layout.kept.count() * column_blocks;
    const std::int64_t tiles_at_once =
        std::max<std::int64_t>(1, kSegment / (columns * layout.reduced_count));
    const std::int64_t groups = (tiles + tiles_at_once - 1) / tiles_at_once;
    const std::int64_t rows = rows_of_segment(layout);
    this->pool_.parallel_for(groups * this->segments_, [&](std::int64_t task, int) {
      const std::int64_t segment = task % this->segments_;
      const std::int64_t first = task / this->segments_ * tiles_at_once;
      const std::int64_t begin = segment * rows;
      const std::int64_t end = std::min(begin + rows, layout.reduced_count);
      for (std::int64_t tile = first; tile < std::min(first + tiles_at_once, tiles); ++tile) {
        const std::int64_t outer = tile / column_blocks;
        const std::int64_t column = tile % column_blocks * columns;
        const std::int64_t n = std::min(columns, layout.inner - column);
        alignas(64) C sums[kBlock];
        reduce_rows(arguments.inputs[0], layout.kept.offset(outer) + column, n, begin, end, sums);
        this->deliver(arguments, segment, outer * layout.inner + column, n, sums);
      }
    });
  }

  /// Accumulates rows [begin, end) of `columns` elements each.
  void reduce_rows(const void* x, std::int64_t base, std::int64_t columns, std::int64_t begin,
                   std::int64_t end, C* sums) const {
    const ReductionLayout& layout = this->layout_;
    // Rows are joined only where they are whole, so that they follow each other without gaps.
    const std::int64_t joined =
        columns == layout.inner ? std::max<std::int64_t>(1, kWide / columns) : 1;
    const std::int64_t run =
        layout.reduced.rank == 0
            ? 1
            : layout.reduced.extent[static_cast<std::size_t>(layout.reduced.rank - 1)];
    alignas(64) C buffer[kBlock];
    std::fill(sums, sums + columns * joined, Op::template identity<C>);
    for (std::int64_t row = begin; row < end;) {
      const std::int64_t n = std::min({joined, run - row % run, end - row});
      const C* block =
          this->source_.block(x, base + layout.reduced.offset(row), n * columns, buffer);
      accumulate<Op>(sums, block, n * columns);
      row += n;
    }
    for (std::int64_t i = 1; i < joined; ++i) accumulate<Op>(sums, sums + i * columns, columns);
  }
};

template <class Op, class C, class Result>
std::unique_ptr<Kernel> make(const TensorType& x, AxisSet axes, bool mean, DType result,
                             ThreadPool& pool) {
  const ReductionLayout layout = reduction_layout(x.shape, axes);
  if (layout.inner_kept) {
    return std::make_unique<ColumnsKernel<Op, C, Result>>(layout, x, mean, result, pool);
  }
  return std::make_unique<RowsKernel<Op, C, Result>>(layout, x, mean, result, pool);
}

}  // namespace

std::unique_ptr<Kernel> make_reduction(Reduction reduction, const TensorType& x, AxisSet axes,
                                       DType result, ThreadPool& pool) {
  const bool mean = reduction == Reduction::kMean;
  if (reduction == Reduction::kMax) {
    if (!is_floating(x.dtype)) {
      return make<Max, std::int64_t, std::int64_t>(x, axes, false, result, pool);
    }
    if (x.dtype == float64) return make<Max, double, double>(x, axes, false, result, pool);
    return make<Max, float, float>(x, axes, false, result, pool);
  }
  if (!is_floating(x.dtype)) {
    if (mean) return make<Sum, std::int64_t, double>(x, axes, true, result, pool);
    return make<Sum, std::int64_t, std::int64_t>(x, axes, false, result, pool);
  }
  if (x.dtype == float64) return make<Sum, double, double>(x, axes, mean, result, pool);
  return make<Sum, float, float>(x, axes, mean, result, pool);
}

}  // namespace demi::cpu
