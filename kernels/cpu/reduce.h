// Sums, means and maxima over axes: shared by the families reduction and binary (sum_to).
#pragma once

#include <memory>

#include "kernels/cpu/thread_pool.h"
#include "kernels/kernel.h"
#include "src/core/reduction_layout.h"

namespace demi::cpu {

enum class Reduction { kSum, kMean, kMax };

/// A kernel from input 0, of type `x`, to output 0, which holds the reductions over `axes` in
/// row-major order of the other axes, as `result`. Accumulates in float (double for float64, int64
/// for integers) in an order given by the shape alone; a sum of nothing is 0, a mean of nothing 0.
[[nodiscard]] std::unique_ptr<Kernel> make_reduction(Reduction reduction, const TensorType& x,
                                                     AxisSet axes, DType result, ThreadPool& pool);

}  // namespace demi::cpu
