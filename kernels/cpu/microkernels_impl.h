// Bodies of the micro-kernels, compiled once per instruction set (Note [Instruction sets]).
#pragma once

#include <utility>

#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/microkernels_pool_impl.h"
#include "kernels/cpu/microkernels_sparse_impl.h"
#include "kernels/cpu/simd.h"

namespace demi::cpu::DEMI_CPU_ISA {

/// Rows of C held in registers. They, the operands of a step and the addresses of the rows (one, of
/// a run) must fit in the register files, and there must be at least eight sums, or the multipliers
/// wait for results (two of them, four cycles each).
inline constexpr int tile_rows(int vectors, bool row_run = false) {
  if (vectors == 1) return row_run && kVectorBytes == 64 ? 16 : 10;
  return vectors < 4 && kVectorBytes == 64 ? 8 : 6;
}

/// Shorter runs are not worth cutting rows at their ends.
inline constexpr std::int64_t kMinRowRun = 8;

// ---- Panels of C
// ----------------------------------------------------------------------------------

template <class E>
DEMI_INLINE std::int64_t c_offset(const PanelJob<E>& job, std::int64_t row) {
  return job.c_offsets != nullptr ? job.c_offsets[row] : row * job.c_stride;
}

/// Stores the first job.columns columns of a tile [rows, width].
template <class E>
__attribute__((noinline)) void store_narrow(const PanelJob<E>& job, std::int64_t row,
                                            std::int64_t rows, const E* tile, std::int64_t width) {
  with_type<E>(job.c, job.c_storage, [&](auto* c) {
    for (std::int64_t i = 0; i < rows; ++i) {
      auto* out = c + c_offset(job, row + i);
      for (std::int64_t j = 0; j < job.columns; j += kLanes<E>) {
        store_some<E>(out + j, load<E>(tile + i * width + j), min_of(job.columns - j, kLanes<E>));
      }
    }
  });
}

template <class E, int kVectors, int kRows>
DEMI_INLINE void store_tile(const PanelJob<E>& job, std::int64_t row,
                            const Vec<E> (&sums)[kRows][kVectors]) {
  constexpr int kWidth = kVectors * kLanes<E>;
  if (job.columns < kWidth) {
    E tile[kRows * kWidth];
    DEMI_UNROLL
    for (int i = 0; i < kRows; ++i) {
      DEMI_UNROLL
      for (int v = 0; v < kVectors; ++v) store<E>(tile + i * kWidth + v * kLanes<E>, sums[i][v]);
    }
    return store_narrow(job, row, kRows, tile, kWidth);
  }
  with_type<E>(
      job.c, job.c_storage, [&](auto* c) __attribute__((always_inline)) {
        DEMI_UNROLL
        for (int i = 0; i < kRows; ++i) {
          auto* out = c + c_offset(job, row + i);
          DEMI_UNROLL
          for (int v = 0; v < kVectors; ++v) store_as<E>(out + v * kLanes<E>, sums[i][v]);
        }
      });
}

template <class E, int kVectors, int kRows>
DEMI_INLINE void finish_tile(const PanelJob<E>& job, std::int64_t row,
                             Vec<E> (&sums)[kRows][kVectors]) {
  if (job.relu) {
    DEMI_UNROLL
    for (int i = 0; i < kRows; ++i) {
      DEMI_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[i][v] = relu<E>(sums[i][v]);
    }
  }
  store_tile<E, kVectors, kRows>(job, row, sums);
}

/// `count` tiles of kRows rows from `row` on.
template <class E, int kVectors, bool kRowRun, int kRows>
__attribute__((noinline)) void run_tiles(const PanelJob<E>& job, std::int64_t row,
                                         std::int64_t count) {
  for (; count > 0; --count, row += kRows) {
    const E* a[kRows];
    Vec<E> sums[kRows][kVectors] = {};
    a[0] = job.a + job.a_offsets[row];
    DEMI_UNROLL
    for (int i = 1; i < kRows; ++i) {
      a[i] = kRowRun ? a[0] + i : job.a + job.a_offsets[row + i];
    }
    if (job.init != nullptr) {
      DEMI_UNROLL
      for (int i = 0; i < kRows; ++i) {
        DEMI_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          sums[i][v] = load<E>(job.init + (row + i) * job.init_stride + v * kLanes<E>);
        }
      }
    }
    const E* b = job.b;
    for (const std::int32_t *step = job.a_steps, *end = step + job.depth; step != end; ++step) {
      const std::int64_t at = *step;
      Vec<E> operand[kVectors];
      DEMI_UNROLL
      for (int v = 0; v < kVectors; ++v) operand[v] = load<E>(b + v * kLanes<E>);
      DEMI_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const Vec<E> x = broadcast<E>(a[i][at]);
        DEMI_UNROLL
        for (int v = 0; v < kVectors; ++v) sums[i][v] = fma<E>(x, operand[v], sums[i][v]);
      }
      b += job.b_stride;
    }
    finish_tile<E, kVectors, kRows>(job, row, sums);
  }
}

template <class E, int kVectors, bool kRowRun, int... kRows>
DEMI_INLINE void run_tiles_of(const PanelJob<E>& job, std::int64_t tile_rows, std::int64_t row,
                              std::int64_t count, std::integer_sequence<int, kRows...>) {
  constexpr void (*kRun[])(const PanelJob<E>&, std::int64_t,
                           std::int64_t) = {run_tiles<E, kVectors, kRowRun, kRows + 1>...};
  kRun[tile_rows - 1](job, row, count);
}

/// Cuts rows into tiles that differ by at most one row: two tiles of four use the multipliers
/// better than one of six and one of two.
template <class E, int kVectors, bool kRowRun>
void run_rows(const PanelJob<E>& job, std::int64_t first, std::int64_t count) {
  constexpr int kMost = tile_rows(kVectors, kRowRun);
  constexpr std::make_integer_sequence<int, kMost> kSizes;
  const std::int64_t tiles = (count + kMost - 1) / kMost;
  if (tiles == 0) return;
  const std::int64_t rows = count / tiles;
  const std::int64_t larger = count % tiles;
  if (larger > 0) run_tiles_of<E, kVectors, kRowRun>(job, rows + 1, first, larger, kSizes);
  run_tiles_of<E, kVectors, kRowRun>(job, rows, first + larger * (rows + 1), tiles - larger,
                                     kSizes);
}

template <class E, int kVectors>
void run_panel(const PanelJob<E>& job) {
  if constexpr (kVectors == 1) {
    if (job.row_run >= kMinRowRun) {
      for (std::int64_t row = 0; row < job.rows; row += job.row_run) {
        run_rows<E, kVectors, true>(job, row, min_of(job.row_run, job.rows - row));
      }
      return;
    }
  }
  run_rows<E, kVectors, false>(job, 0, job.rows);
}

// ---- Packing
// --------------------------------------------------------------------------------------

template <class E>
void pack(const PackJob<E>& job) {
  with_type<E>(job.source.data, job.source.storage, [&](const auto* source) {
    for (std::int64_t r = 0; r < job.rows; ++r, source += job.source_stride) {
      E* out = job.out + r * job.width;
      std::int64_t c = 0;
      for (; c + kLanes<E> <= job.columns; c += kLanes<E>)
        store<E>(out + c, load_as<E>(source + c));
      if (c < job.columns) {
        const Vec<E> rest = load_some<E>(source + c, job.columns - c);
        store_some<E>(out + c, rest, min_of(job.width - c, kLanes<E>));
        c += kLanes<E>;
      }
      for (; c < job.width; ++c) out[c] = 0;
    }
  });
}

template <class E, int kHalf, int... kI>
DEMI_INLINE void exchange_halves(Vec<E>& a, Vec<E>& b, std::integer_sequence<int, kI...>) {
  constexpr int kN = kLanes<E>;
  const Vec<E> low = __builtin_shufflevector(a, b, ((kI & kHalf) != 0 ? kN + kI - kHalf : kI)...);
  b = __builtin_shufflevector(a, b, ((kI & kHalf) != 0 ? kN + kI : kI + kHalf)...);
  a = low;
}

/// Transposes a square of lanes × lanes: swaps the off-diagonal quarters of blocks of every size.
template <class E, int kHalf = kLanes<E> / 2>
DEMI_INLINE void transpose(Vec<E> (&rows)[kLanes<E>]) {
  DEMI_UNROLL
  for (int i = 0; i < kLanes<E>; ++i) {
    if ((i & kHalf) == 0) {
      exchange_halves<E, kHalf>(rows[i], rows[i + kHalf],
                                std::make_integer_sequence<int, kLanes<E>>());
    }
  }
  if constexpr (kHalf > 1) transpose<E, kHalf / 2>(rows);
}

template <class E, class T>
void transpose_edge(const T* source, std::int64_t source_stride, std::int64_t rows,
                    std::int64_t columns, E* out, std::int64_t width) {
  Vec<E> square[kLanes<E>] = {};
  for (std::int64_t c = 0; c < columns; ++c)
    square[c] = load_some<E>(source + c * source_stride, rows);
  transpose<E>(square);
  for (std::int64_t r = 0; r < rows; ++r) store<E>(out + r * width, square[r]);
}

template <class E>
void pack_transposed(const PackJob<E>& job) {
  constexpr int kN = kLanes<E>;
  with_type<E>(job.source.data, job.source.storage, [&](const auto* source) {
    for (std::int64_t c = 0; c < job.columns; c += kN, source += kN * job.source_stride) {
      for (std::int64_t r = 0; r < job.rows; r += kN) {
        E* out = job.out + r * job.width + c;
        const std::int64_t rows = min_of(job.rows - r, kN);
        const std::int64_t columns = min_of(job.columns - c, kN);
        if (rows < kN || columns < kN) {
          transpose_edge<E>(source + r, job.source_stride, rows, columns, out, job.width);
          continue;
        }
        Vec<E> square[kN];
        DEMI_UNROLL
        for (int i = 0; i < kN; ++i) square[i] = load_as<E>(source + r + i * job.source_stride);
        transpose<E>(square);
        DEMI_UNROLL
        for (int i = 0; i < kN; ++i) store<E>(out + i * job.width, square[i]);
      }
    }
  });
}

template <class E>
void unpack(const E* values, std::int64_t count, void* out, Storage storage) {
  with_type<E>(out, storage, [&](auto* typed) {
    std::int64_t i = 0;
    for (; i + kLanes<E> <= count; i += kLanes<E>) store_as<E>(typed + i, load<E>(values + i));
    if (i < count) store_some<E>(typed + i, load_some<E>(values + i, count - i), count - i);
  });
}

// ---- The table
// ------------------------------------------------------------------------------------

/// kVectors: the width of the widest panel.
template <class E, int kVectors>
MicroKernels<E> make_microkernels() {
  MicroKernels<E> kernels{};
  kernels.lanes = kLanes<E>;
  kernels.panel_width = kVectors * kLanes<E>;
  kernels.panels[0] = run_panel<E, 1>;
  kernels.panels[1] = run_panel<E, 2>;
  if constexpr (kVectors == 4) {
    kernels.panels[2] = run_panel<E, 3>;
    kernels.panels[3] = run_panel<E, 4>;
    kernels.windows[2] = run_windows<E, 3>;
    kernels.windows[3] = run_windows<E, 4>;
  }
  kernels.pack = pack<E>;
  kernels.pack_transposed = pack_transposed<E>;
  kernels.unpack = unpack<E>;
  kernels.pool = pool<E>;
  kernels.windows[0] = run_windows<E, 1>;
  kernels.windows[1] = run_windows<E, 2>;
  set_lists(kernels, std::make_integer_sequence<int, MicroKernels<E>::kMaxListVectors>());
  kernels.select = select<E>;
  return kernels;
}

}  // namespace demi::cpu::DEMI_CPU_ISA
