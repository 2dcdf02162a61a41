#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/workspace.h"
#include "src/core/check.h"

namespace demi::cpu {
namespace {

// C is cut into chunks of rows × groups of columns. A panel of B, depth × panel_width, should stay
// in the first-level cache while it meets the rows of a chunk; those rows, in the second-level
// cache.
constexpr std::int64_t kMaxDepth = 384;
constexpr std::int64_t kMinRows = 24;
constexpr std::int64_t kMaxRows = 96;
constexpr std::int64_t kMaxColumns = 256;
constexpr std::int64_t kWantedChunks = 16;
/// Elements of B packed at a time.
constexpr std::int64_t kMaxPacked = std::int64_t{1} << 20;
/// Up to so many rows of C, packing B costs more than it saves.
constexpr std::int64_t kDirectRows = 6;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return ceil_div(a, b) * b;
}

template <class E>
struct Plan {
  Plan(const GemmProblem& problem, int threads);

  const MicroKernels<E>& kernels = microkernels<E>();
  std::int64_t lda;
  std::int64_t ldb;
  std::int64_t ldc;
  std::int64_t depth;  ///< of a block of the sum
  std::int64_t depth_blocks;
  std::int64_t rows;  ///< of a chunk
  std::int64_t row_chunks;
  std::int64_t columns;  ///< of a chunk, whole panels
  std::int64_t block;    ///< columns of B packed at a time, whole chunks
  bool pack_a;
  bool share_b;    ///< B is packed once for all chunks, else by each chunk
  bool sums_in_c;  ///< no need to keep sums of a chunk elsewhere
  std::size_t bias_offset;
  std::size_t b_offset;
  std::size_t thread_offset;  ///< then, per thread:
  std::size_t thread_bytes;
  std::size_t a_piece;
  std::size_t panel_piece;
  std::size_t sums_piece;
  std::size_t bytes;
};

template <class E>
Plan<E>::Plan(const GemmProblem& p, int threads)
    : lda(p.lda != 0 ? p.lda : (p.transpose_a ? p.m : p.k)),
      ldb(p.ldb != 0 ? p.ldb : (p.transpose_b ? p.k : p.n)),
      ldc(p.ldc != 0 ? p.ldc : p.n) {
  depth = std::max(
      round_up(ceil_div(p.k, std::max<std::int64_t>(1, ceil_div(p.k, kMaxDepth))), kernels.lanes),
      kernels.lanes);
  depth_blocks = std::max<std::int64_t>(1, ceil_div(p.k, depth));

  rows = std::clamp(round_up(ceil_div(p.m, kWantedChunks), 6), kMinRows, kMaxRows);
  row_chunks = std::max<std::int64_t>(1, ceil_div(p.m, rows));
  rows = ceil_div(p.m, row_chunks);
  const std::int64_t groups =
      std::max(ceil_div(p.n, kMaxColumns), ceil_div(kWantedChunks, row_chunks));
  columns = std::max(round_up(ceil_div(p.n, groups), kernels.panel_width), kernels.panel_width);
  block = std::max(columns, kMaxPacked / std::max<std::int64_t>(1, p.k) / columns * columns);
  block = std::min(block, round_up(p.n, columns));

  // Rows a multiple of 2 KiB apart would compete for a few places of the cache.
  const bool rows_collide = lda * static_cast<std::int64_t>(sizeof(E)) % 2048 == 0 && p.m > 1;
  pack_a = is_half(p.a_dtype) || p.transpose_a || (rows_collide && p.n > 2 * kernels.panel_width);
  share_b = row_chunks > 1;
  sums_in_c = depth_blocks == 1 && !p.accumulate;

  WorkspaceLayout shared;
  bias_offset = shared.reserve<E>(round_up(p.n, kernels.panel_width));
  b_offset = shared.reserve<E>(share_b ? p.k * block : 0);
  thread_offset = shared.bytes();
  WorkspaceLayout own;
  a_piece = own.reserve<E>(pack_a ? round_up(rows, kernels.lanes) * depth : 0);
  panel_piece = own.reserve<E>(share_b ? 0 : depth * kernels.panel_width);
  sums_piece = own.reserve<E>(sums_in_c ? 0 : rows * columns);
  thread_bytes = own.bytes();
  bytes = thread_offset + thread_bytes * static_cast<std::size_t>(threads);
}

template <class E>
class Gemm {
 public:
  Gemm(const GemmProblem& problem, const Plan<E>& plan, const void* a, const void* b, void* c,
       void* workspace)
      : p_(problem), plan_(plan), a_(a), b_(b), c_(c), workspace_(workspace) {}

  void run(const void* bias, ThreadPool& pool) {
    if (p_.m == 0 || p_.n == 0) return;
    if (bias != nullptr) {
      bias_ = piece<E>(workspace_, plan_.bias_offset);
      plan_.kernels.pack({.source = {bias, storage_of(p_.bias_dtype)},
                          .source_stride = 0,
                          .rows = 1,
                          .columns = p_.n,
                          .out = bias_,
                          .width = round_up(p_.n, plan_.kernels.panel_width)});
    }
    for (std::int64_t column = 0; column < p_.n; column += plan_.block) {
      const std::int64_t columns = std::min(plan_.block, p_.n - column);
      if (plan_.share_b) {
        pool.parallel_for(plan_.kernels.panel_count(columns), [&](std::int64_t panel, int) {
          const std::int64_t at = panel * plan_.kernels.panel_width;
          pack_b(column + at, 0, p_.k, piece<E>(workspace_, plan_.b_offset) + at * p_.k);
        });
      }
      const std::int64_t groups = ceil_div(columns, plan_.columns);
      pool.parallel_for(plan_.row_chunks * groups, [&](std::int64_t chunk, int thread) {
        run_chunk(chunk / groups * plan_.rows, column, chunk % groups * plan_.columns, thread);
      });
    }
  }

 private:
  /// Packs `depth` steps of the panel of B whose first column is `column`.
  void pack_b(std::int64_t column, std::int64_t step, std::int64_t depth, E* out) const {
    const std::int64_t columns = std::min(plan_.kernels.panel_width, p_.n - column);
    const auto& pack = p_.transpose_b ? plan_.kernels.pack_transposed : plan_.kernels.pack;
    pack({.source = at(b_, p_.b_dtype,
                       p_.transpose_b ? column * plan_.ldb + step : step * plan_.ldb + column),
          .source_stride = plan_.ldb,
          .rows = depth,
          .columns = columns,
          .out = out,
          .width = plan_.kernels.width_of(columns)});
  }

  static Source at(const void* data, DType dtype, std::int64_t element) {
    return {
        static_cast<const std::byte*>(data) + element * static_cast<std::int64_t>(size_of(dtype)),
        storage_of(dtype)};
  }

  void run_chunk(std::int64_t row, std::int64_t block, std::int64_t column, int thread) const;
  void place_a(std::int64_t row, std::int64_t step, E* packed, PanelJob<E>& job,
               std::int64_t* offsets) const;
  void place_b(std::int64_t block, std::int64_t column, std::int64_t step, E* packed,
               PanelJob<E>& job) const;

  const GemmProblem& p_;
  const Plan<E>& plan_;
  const void* a_;
  const void* b_;
  void* c_;
  void* workspace_;
  E* bias_ = nullptr;
};

/// Points job's A at its depth of its rows from `step` on, packed if need be.
template <class E>
void Gemm<E>::place_a(std::int64_t row, std::int64_t step, E* packed, PanelJob<E>& job,
                      std::int64_t* offsets) const {
  const std::int64_t lanes = plan_.kernels.lanes;
  const Source source =
      at(a_, p_.a_dtype, p_.transpose_a ? step * plan_.lda + row : row * plan_.lda + step);
  job.a = plan_.pack_a ? packed : static_cast<const E*>(source.data);
  if (p_.transpose_a) {
    for (std::int64_t i = 0; i < job.rows; i += lanes) {
      plan_.kernels.pack({.source = at(source.data, p_.a_dtype, i),
                          .source_stride = plan_.lda,
                          .rows = job.depth,
                          .columns = std::min(lanes, job.rows - i),
                          .out = packed + i * plan_.depth,
                          .width = lanes});
    }
    for (std::int64_t i = 0; i < job.rows; ++i) {
      offsets[i] = i / lanes * lanes * plan_.depth + i % lanes;
    }
    return;
  }
  if (plan_.pack_a) {
    plan_.kernels.pack({.source = source,
                        .source_stride = plan_.lda,
                        .rows = job.rows,
                        .columns = job.depth,
                        .out = packed,
                        .width = plan_.depth});
  }
  for (std::int64_t i = 0; i < job.rows; ++i) {
    offsets[i] = i * (plan_.pack_a ? plan_.depth : plan_.lda);
  }
}

/// Points job's B at its depth of a panel from `step` on.
template <class E>
void Gemm<E>::place_b(std::int64_t block, std::int64_t column, std::int64_t step, E* packed,
                      PanelJob<E>& job) const {
  const std::int64_t width = plan_.kernels.width_of(p_.n - block - column);
  job.b_stride = width;
  if (plan_.share_b) {
    job.b = piece<E>(workspace_, plan_.b_offset) + column * p_.k + step * width;
  } else if (p_.m <= kDirectRows && !is_half(p_.b_dtype) && !p_.transpose_b &&
             p_.n - block - column >= width) {
    job.b = static_cast<const E*>(b_) + step * plan_.ldb + block + column;
    job.b_stride = plan_.ldb;
  } else {
    pack_b(block + column, step, job.depth, packed);
    job.b = packed;
  }
}

/// Computes plan.rows × plan.columns of C from (row, block + column) on.
template <class E>
void Gemm<E>::run_chunk(std::int64_t row, std::int64_t block, std::int64_t column,
                        int thread) const {
  void* own = piece<std::byte>(
      workspace_, plan_.thread_offset + plan_.thread_bytes * static_cast<std::size_t>(thread));
  E* sums = piece<E>(own, plan_.sums_piece);
  const std::int64_t end = std::min(column + plan_.columns, std::min(plan_.block, p_.n - block));
  std::array<std::int64_t, kMaxRows> a_offsets;
  PanelJob<E> job{};
  job.rows = std::min(plan_.rows, p_.m - row);
  job.a_offsets = a_offsets.data();
  std::array<std::int32_t, kMaxDepth> steps;
  const auto step_size = static_cast<std::int32_t>(p_.transpose_a ? plan_.kernels.lanes : 1);
  for (std::int32_t i = 0; i < plan_.depth; ++i) steps[static_cast<std::size_t>(i)] = i * step_size;
  job.a_steps = steps.data();

  for (std::int64_t i = 0; i < plan_.depth_blocks; ++i) {
    const std::int64_t step = i * plan_.depth;
    const bool last = i + 1 == plan_.depth_blocks;
    job.depth = std::min(plan_.depth, p_.k - step);
    place_a(row, step, piece<E>(own, plan_.a_piece), job, a_offsets.data());
    job.relu = last && p_.activation == Activation::kRelu;
    for (std::int64_t j = column; j < end; j += plan_.kernels.panel_width) {
      const std::int64_t width = plan_.kernels.width_of(end - j);
      job.columns = std::min(width, end - j);
      place_b(block, j, step, piece<E>(own, plan_.panel_piece), job);
      const Source c = at(c_, p_.c_dtype, row * plan_.ldc + block + j);
      E* panel_sums = sums + (j - column);
      if (i == 0 && p_.accumulate) {
        plan_.kernels.pack({.source = c,
                            .source_stride = plan_.ldc,
                            .rows = job.rows,
                            .columns = job.columns,
                            .out = panel_sums,
                            .width = plan_.columns});
      }
      const bool from_sums = i > 0 || p_.accumulate;
      const E* bias = bias_ != nullptr ? bias_ + block + j : nullptr;
      job.init = from_sums ? panel_sums : bias;
      job.init_stride = from_sums ? plan_.columns : 0;
      job.c = last ? const_cast<void*>(c.data) : panel_sums;
      job.c_storage = last ? c.storage : Storage::kCompute;
      job.c_stride = last ? plan_.ldc : plan_.columns;
      plan_.kernels.run_panel(width, job);
    }
  }
}

void check(const GemmProblem& p) {
  const bool wide = p.c_dtype == DType::kFloat64;
  DEMI_CHECK(p.m >= 0 && p.n >= 0 && p.k >= 0, "a matrix has a negative extent");
  DEMI_CHECK((p.a_dtype == DType::kFloat64) == wide && (p.b_dtype == DType::kFloat64) == wide,
             "float64 goes with float64 only");
  DEMI_CHECK(is_floating(p.a_dtype) && is_floating(p.b_dtype) && is_floating(p.c_dtype),
             "matrices hold floating-point numbers");
  DEMI_CHECK(!p.accumulate || !is_half(p.c_dtype), "sums are accumulated in float32 or float64");
}

template <class E>
void run(const GemmProblem& problem, const void* a, const void* b, const void* bias, void* c,
         void* workspace, ThreadPool& pool) {
  DEMI_CHECK(bias == nullptr || !problem.accumulate, "sums start from a bias or from C");
  const Plan<E> plan(problem, pool.threads());
  Gemm<E>(problem, plan, a, b, c, workspace).run(bias, pool);
}

}  // namespace

std::size_t gemm_workspace_bytes(const GemmProblem& problem, int threads) {
  check(problem);
  return problem.c_dtype == DType::kFloat64 ? Plan<double>(problem, threads).bytes
                                            : Plan<float>(problem, threads).bytes;
}

void gemm(const GemmProblem& problem, const void* a, const void* b, const void* bias, void* c,
          void* workspace, ThreadPool& pool) {
  check(problem);
  if (problem.c_dtype == DType::kFloat64) {
    run<double>(problem, a, b, bias, c, workspace, pool);
  } else {
    run<float>(problem, a, b, bias, c, workspace, pool);
  }
}

}  // namespace demi::cpu
