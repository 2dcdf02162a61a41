// How a correlation is cut into strips, panels and blocks of the sum, and where its workspace lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/conv2d/correlation.h"
#include "kernels/cpu/conv2d/source_rows.h"
#include "kernels/cpu/microkernels.h"

namespace demi::cpu {

/// Steps of the sum between two visits of C: a panel of filters of that depth stays in the
/// first-level cache.
inline constexpr std::int64_t kMaxDepth = 384;

/// The results that use the same taps, and where a strip's pixels of them lie.
struct Phase {
  const std::int32_t* steps;  ///< of the source, for each step of the sum
  std::int64_t depth;
  std::int64_t first_step;  ///< in the packed filter
  std::int64_t* source_offsets;
  std::int64_t* result_offsets;
  std::int64_t rows;  ///< of a full strip
  std::int64_t columns;
  std::int64_t first_row;
};

template <class E>
struct CorrelationPlan {
  CorrelationPlan(const CorrelationProblem& problem, int threads);

  /// Rows of results in a strip of `units`: rows of the pooled result, or steps of the phases.
  [[nodiscard]] std::int64_t rows_of(std::int64_t units) const {
    if (p.window != nullptr) return (units - 1) * p.window->stride_h + p.window->size_h;
    return units * p.rows.step();
  }
  /// Rows of the source they read.
  [[nodiscard]] std::int64_t box_rows(std::int64_t units) const;
  [[nodiscard]] bool fits(std::int64_t units) const;
  void choose_strips();
  void reserve(int threads);

  const CorrelationProblem& p;
  const MicroKernels<E>& kernels = microkernels<E>();
  std::int64_t depth;          ///< of the whole sum
  std::int64_t group_columns;  ///< result channels of a group in whole vectors
  std::int64_t panels;         ///< of a group
  SourceBox box;
  std::int64_t all_units;
  std::int64_t units;  ///< of a strip
  std::int64_t strips;
  std::int64_t images;  ///< of a chunk
  bool in_place;        ///< the source is read where it lies
  std::int64_t pitch;   ///< of the rows that are read
  std::int64_t image_pitch;
  std::int64_t panel_chunks;
  std::int64_t chunk_panels;
  std::int64_t phase_count;
  std::int64_t pixels;  ///< of a full strip
  bool shallow;         ///< pooled in registers: short sums over 2 × 2 windows

  std::size_t filter_offset;
  std::size_t bias_offset;
  std::size_t phases_offset;
  std::size_t steps_offset;
  std::size_t slots_offset;
  std::size_t offsets_offset;
  std::size_t windows_offset;
  std::size_t thread_offset;
  std::size_t thread_bytes;
  std::size_t box_piece;
  std::size_t sums_piece;
  std::size_t bytes;
};

}  // namespace demi::cpu
