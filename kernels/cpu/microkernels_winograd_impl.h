// Bodies of the transforms of Note [Winograd].
#pragma once

#include "kernels/cpu/microkernels.h"
#include "kernels/cpu/microkernels_pool_impl.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_tail.h"

namespace demi::cpu::DEMI_CPU_ISA {

/// Stores v · B: one row of a transformed patch.
template <class E>
DEMI_INLINE void store_source_row(E* out, std::int64_t plane, const Vec<E> (&v)[4]) {
  store<E>(out, v[0] - v[2]);
  store<E>(out + plane, v[1] + v[2]);
  store<E>(out + 2 * plane, v[2] - v[1]);
  store<E>(out + 3 * plane, v[1] - v[3]);
}

template <class E, class Load>
DEMI_INLINE void transform_patch(const WinogradSourceJob<E>& job, const E* patch, E* out,
                                 const Load& load_from) {
  // Row by row of the result: all 16 values of the patch and of the result at once are more than
  // there are registers.
  constexpr int kFrom[4][2] = {{0, 2}, {1, 2}, {2, 1}, {1, 3}};
  DEMI_UNROLL
  for (int row = 0; row < 4; ++row) {
    const E* first = patch + kFrom[row][0] * job.row_stride;
    const E* second = patch + kFrom[row][1] * job.row_stride;
    Vec<E> v[4];
    DEMI_UNROLL
    for (int j = 0; j < 4; ++j) {
      const Vec<E> a = load_from(first + j * job.pixel_stride);
      const Vec<E> b = load_from(second + j * job.pixel_stride);
      v[j] = row == 1 ? a + b : a - b;
    }
    store_source_row<E>(out + 4 * row * job.plane, job.plane, v);
  }
}

template <class E>
void winograd_source(const WinogradSourceJob<E>& job) {
  for (std::int64_t tile = 0; tile < job.tiles; ++tile) {
    const E* patch = job.source + 2 * tile * job.pixel_stride;
    E* out = job.out + tile * job.out_stride;
    std::int64_t c = 0;
    for (; c + kLanes<E> <= job.channels; c += kLanes<E>) {
      transform_patch<E>(
          job, patch + c, out + c,
          [](const E* p) __attribute__((always_inline)) { return load<E>(p); });
    }
    if (c < job.channels) {
      const std::int64_t rest = job.channels - c;
      transform_patch<E>(
          job, patch + c, out + c,
          [rest](const E* p) __attribute__((always_inline)) { return load_some<E>(p, rest); });
    }
  }
}

template <class E>
void winograd_filter(const WinogradFilterJob<E>& job) {
  const Vec<E> half = broadcast<E>(E{1} / 2);
  const std::int64_t tap = job.channels * job.width;
  for (std::int64_t i = 0; i < tap; i += kLanes<E>) {
    Vec<E> rows[4][3];
    DEMI_UNROLL
    for (int j = 0; j < 3; ++j) {
      const Vec<E> a = load<E>(job.taps + j * tap + i);
      const Vec<E> b = load<E>(job.taps + (3 + j) * tap + i);
      const Vec<E> c = load<E>(job.taps + (6 + j) * tap + i);
      const Vec<E> outer = half * (a + c);
      rows[0][j] = a;
      rows[1][j] = outer + half * b;
      rows[2][j] = outer - half * b;
      rows[3][j] = c;
    }
    E* out = job.out + i;
    DEMI_UNROLL
    for (int row = 0; row < 4; ++row) {
      const Vec<E> outer = half * (rows[row][0] + rows[row][2]);
      const Vec<E> inner = half * rows[row][1];
      store<E>(out, rows[row][0]);
      store<E>(out + job.plane, outer + inner);
      store<E>(out + 2 * job.plane, outer - inner);
      store<E>(out + 3 * job.plane, rows[row][2]);
      out += 4 * job.plane;
    }
  }
}

/// Aᵀ m A of one tile and vector of channels: results[row][column].
template <class E>
DEMI_INLINE void combine_planes(const E* sums, std::int64_t plane, Vec<E> bias,
                                Vec<E> (&results)[2][2]) {
  Vec<E> above[4];
  Vec<E> below[4];
  DEMI_UNROLL
  for (int j = 0; j < 4; ++j) {
    const Vec<E> second = load<E>(sums + (4 + j) * plane);
    const Vec<E> third = load<E>(sums + (8 + j) * plane);
    above[j] = load<E>(sums + j * plane) + (second + third);
    below[j] = (second - third) - load<E>(sums + (12 + j) * plane);
  }
  results[0][0] = (above[0] + (above[1] + above[2])) + bias;
  results[0][1] = ((above[1] - above[2]) - above[3]) + bias;
  results[1][0] = (below[0] + (below[1] + below[2])) + bias;
  results[1][1] = ((below[1] - below[2]) - below[3]) + bias;
}

template <class E>
void winograd_result(const WinogradResultJob<E>& job) {
  with_type<E>(job.y, job.y_storage, [&](auto* y) {
    const std::int64_t tiles = (job.columns + 1) / 2;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const E* sums = job.sums + tile * job.sums_stride;
      const bool has_right = 2 * tile + 1 < job.columns;
      for (std::int64_t c = 0; c < job.channels; c += kLanes<E>) {
        const std::int64_t count = min_of(job.channels - c, kLanes<E>);
        Vec<E> r[2][2];
        combine_planes<E>(sums + c, job.plane,
                          job.bias != nullptr ? load<E>(job.bias + c) : Vec<E>{}, r);
        if (job.index != nullptr) {
          Vec<E> best;
          Places<E> place;
          pool_four<E>(r[0][0], r[0][1], r[1][0], r[1][1], job.relu, best, place);
          const std::int64_t at = tile * job.pixel_stride + c;
          store_pooled<E>(best, place, y + at, job.index + at, count);
          continue;
        }
        auto* out = y + 2 * tile * job.pixel_stride + c;
        for (std::int64_t row = 0; row < job.rows; ++row, out += job.row_stride) {
          const Vec<E> left = row == 0 ? r[0][0] : r[1][0];
          const Vec<E> right = row == 0 ? r[0][1] : r[1][1];
          store_up_to<E>(out, job.relu ? relu<E>(left) : left, count);
          if (!has_right) continue;
          store_up_to<E>(out + job.pixel_stride, job.relu ? relu<E>(right) : right, count);
        }
      }
    }
  });
}

/// Stores v · Aᵀ of a row with two elements: one row of a transformed gradient.
template <class E>
DEMI_INLINE void store_gradient_row(E* out, std::int64_t plane, Vec<E> left, Vec<E> right) {
  store<E>(out, left);
  store<E>(out + plane, left + right);
  store<E>(out + 2 * plane, left - right);
  store<E>(out + 3 * plane, Vec<E>{} - right);
}

template <class E>
void winograd_gradient(const WinogradGradientJob<E>& job) {
  with_type<E>(job.dy.data, job.dy.storage, [&](const auto* dy) {
    const std::int64_t tiles = (job.columns + 1) / 2;
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
      const auto* first = dy + 2 * tile * job.pixel_stride;
      const bool has_right = 2 * tile + 1 < job.columns;
      for (std::int64_t c = 0; c < job.width; c += kLanes<E>) {
        const std::int64_t count = min_of(job.channels - c, kLanes<E>);
        const auto value = [&](bool there, const auto* p) __attribute__((always_inline)) {
          if (!there) return Vec<E>{};
          return load_up_to<E>(p, count);
        };
        const auto* at = first + c;
        const Vec<E> a = value(true, at);
        const Vec<E> b = value(has_right, at + job.pixel_stride);
        const Vec<E> d = value(job.rows > 1, at + job.row_stride);
        const Vec<E> e = value(job.rows > 1 && has_right, at + job.row_stride + job.pixel_stride);
        E* out = job.out + tile * job.width + c;
        store_gradient_row<E>(out, job.plane, a, b);
        store_gradient_row<E>(out + 4 * job.plane, job.plane, a + d, b + e);
        store_gradient_row<E>(out + 8 * job.plane, job.plane, a - d, b - e);
        store_gradient_row<E>(out + 12 * job.plane, job.plane, Vec<E>{} - d, Vec<E>{} - e);
      }
    }
  });
}

template <class E>
void winograd_taps(const WinogradTapsJob<E>& job) {
  const Vec<E> half = broadcast<E>(E{1} / 2);
  const std::int64_t tap = job.channels * job.width;
  for (std::int64_t i = 0; i < tap; i += kLanes<E>) {
    Vec<E> rows[3][4];
    DEMI_UNROLL
    for (int j = 0; j < 4; ++j) {
      const E* sums = job.sums + j * job.plane + i;
      const Vec<E> second = load<E>(sums + 4 * job.plane);
      const Vec<E> third = load<E>(sums + 8 * job.plane);
      const Vec<E> both = half * (second + third);
      rows[0][j] = load<E>(sums) + both;
      rows[1][j] = half * (second - third);
      rows[2][j] = both + load<E>(sums + 12 * job.plane);
    }
    DEMI_UNROLL
    for (int row = 0; row < 3; ++row) {
      const Vec<E> both = half * (rows[row][1] + rows[row][2]);
      store<E>(job.out + 3 * row * tap + i, rows[row][0] + both);
      store<E>(job.out + (3 * row + 1) * tap + i, half * (rows[row][1] - rows[row][2]));
      store<E>(job.out + (3 * row + 2) * tap + i, both + rows[row][3]);
    }
  }
}

}  // namespace demi::cpu::DEMI_CPU_ISA
