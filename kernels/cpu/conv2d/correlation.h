// The sliding sums that a convolution's output and its input gradient both are.
//
// Note [Correlation]
// Along each axis, result i reads the source at base(i) + displacement(tap):
//   forward:   y[i]  reads  x[i · stride - pad + tap · dilation]
//   backward:  dx[i] reads dy[(i + pad - tap · dilation) / stride], for the taps that divide
// Results whose remainder (i + pad) mod stride is the same use the same taps: a phase. The forward
// direction has one phase. The results are computed in strips of rows. What a strip reads is copied
// to a buffer that holds compute-type values and the zeros of the padding, unless the source can be
// read in place; then each result pixel is a row of Note [One micro-kernel].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/microkernels.h"

namespace demi::cpu {

/// One spatial axis of a correlation.
struct Axis {
  std::int64_t result;  ///< extents
  std::int64_t source;
  std::int64_t taps;
  std::int64_t stride;
  std::int64_t dilation;
  std::int64_t pad;  ///< before the first input
  bool backward;

  [[nodiscard]] std::int64_t phases() const { return backward ? stride : 1; }
  /// Distance between the results of a phase.
  [[nodiscard]] std::int64_t step() const { return phases(); }
  [[nodiscard]] std::int64_t first(std::int64_t phase) const {
    return backward ? ((phase - pad) % stride + stride) % stride : 0;
  }
  [[nodiscard]] std::int64_t base(std::int64_t i, std::int64_t phase) const {
    return backward ? (i + pad - phase) / stride : i * stride - pad;
  }
  /// Whether the phase uses this tap.
  [[nodiscard]] bool uses(std::int64_t phase, std::int64_t tap) const {
    return !backward || (phase - tap * dilation) % stride == 0;
  }
  [[nodiscard]] std::int64_t displacement(std::int64_t phase, std::int64_t tap) const {
    return backward ? (phase - tap * dilation) / stride : tap * dilation;
  }
  /// First and last source index that results in [begin, end) read.
  [[nodiscard]] std::int64_t lowest(std::int64_t begin) const;
  [[nodiscard]] std::int64_t highest(std::int64_t end) const;
  /// Source steps between results that are `results` (a multiple of step()) apart.
  [[nodiscard]] std::int64_t advance(std::int64_t results) const {
    return backward ? results / stride : results * stride;
  }
  /// The tap at place `i` of the order in which neighbouring taps read neighbouring sources.
  [[nodiscard]] std::int64_t ordered_tap(std::int64_t i) const {
    return backward ? taps - 1 - i : i;
  }
};

/// What is summed; the direction decides how the filter is read.
struct CorrelationProblem {
  std::int64_t n;
  Axis rows;
  Axis columns;
  std::int64_t groups;
  std::int64_t source_channels;  ///< per group
  std::int64_t result_channels;  ///< per group
  DType source_dtype;
  DType filter_dtype;
  DType bias_dtype;
  DType result_dtype;
  bool relu;
  const PoolWindow* window;  ///< of a max-pooling of the result; null: none
};

[[nodiscard]] CorrelationProblem forward_correlation(const Conv2DProblem& problem,
                                                     const PoolWindow* window);
[[nodiscard]] CorrelationProblem backward_correlation(const Conv2DProblem& problem);

struct CorrelationBuffers {
  const void* source;
  const void* filter;
  const void* bias;  ///< or null
  void* result;
  std::uint8_t* index;  ///< with a window
  void* workspace;
};

[[nodiscard]] std::size_t correlation_workspace_bytes(const CorrelationProblem& problem,
                                                      int threads);
void correlate(const CorrelationProblem& problem, const CorrelationBuffers& buffers,
               ThreadPool& pool);

}  // namespace demi::cpu
