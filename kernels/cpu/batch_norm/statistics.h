// The sums over the rows of x that batch_norm needs for each channel.
#pragma once

#include <cstdint>

#include "kernels/cpu/batch_norm/lanes.h"

namespace demi::cpu::batch_norm {

/// Rows that a lane of a chunk has.
[[nodiscard]] inline std::int64_t rows_of_lane(const Layout& layout, std::int64_t chunk,
                                               std::int64_t lane) {
  const std::int64_t size = layout.size(chunk);
  return size / layout.width + (lane < size % layout.width ? 1 : 0);
}

/// For each lane of a chunk its mean, and the sums of the deviations from that mean and of their
/// squares, into scratch [3, width].
template <class E, class T>
void lane_moments(const Layout& layout, std::int64_t chunk, const T* x, E* scratch) {
  E* mean = scratch;
  sum_groups<E, 1, 8>(
      layout, chunk,
      mean, [&](std::int64_t at, std::int64_t, std::int64_t count) __attribute__((always_inline)) {
        return Terms<E, 1>{{load_up_to<E>(x + at, count)}};
      });
  for (std::int64_t lane = 0; lane < layout.width; ++lane) {
    const std::int64_t rows = rows_of_lane(layout, chunk, lane);
    mean[lane] /= static_cast<E>(std::max<std::int64_t>(rows, 1));
  }
  sum_groups<E, 2, 4>(
      layout, chunk, scratch + layout.width,
      [&](std::int64_t at, std::int64_t lane, std::int64_t count) __attribute__((always_inline)) {
        Vec<E> deviation = load_up_to<E>(x + at, count) - load<E>(mean + lane);
        if (count < kLanes<E>) {
          E kept[kLanes<E>];
          store<E>(kept, deviation);
          deviation = load_some<E>(kept, count);
        }
        return Terms<E, 2>{{deviation, deviation * deviation}};
      });
}

/// The mean of each channel of one chunk and the sum of the squared deviations from it, into
/// partials [2, channels]. `scratch` has 3 · width elements.
///
/// Two passes, the second over a chunk that is still in the cache: a float32 sum of squares would
/// lose everything where the mean is large. The sum of the deviations, zero in exact arithmetic,
/// corrects the rounding of the mean.
template <class E, class T>
void chunk_moments(const Layout& layout, std::int64_t chunk, const T* x, E* scratch,
                   double* partials) {
  lane_moments(layout, chunk, x, scratch);
  const E* mean = scratch;
  const E* first = scratch + layout.width;
  const E* second = scratch + 2 * layout.width;
  const std::int64_t lanes = std::min(layout.width, layout.size(chunk));
  const auto chunk_rows = static_cast<double>(layout.size(chunk) / layout.channels);
  for (std::int64_t channel = 0; channel < layout.channels; ++channel) {
    double sum = 0;
    for (std::int64_t lane = channel; lane < lanes; lane += layout.channels) {
      const auto rows = static_cast<double>(rows_of_lane(layout, chunk, lane));
      sum += rows * mean[lane] + first[lane];
    }
    const double centre = sum / chunk_rows;
    double squares = 0;
    for (std::int64_t lane = channel; lane < lanes; lane += layout.channels) {
      const auto rows = static_cast<double>(rows_of_lane(layout, chunk, lane));
      const double error = first[lane] / rows;
      const double offset = mean[lane] + error - centre;
      squares += second[lane] - rows * error * error + rows * offset * offset;
    }
    partials[channel] = centre;
    partials[layout.channels + channel] = squares;
  }
}

/// Mean and biased variance over all chunks of `count` channels, beginning with `channel`.
inline void merge_moments(const Layout& layout, const double* partials, std::int64_t channel,
                          std::int64_t count, double* mean, double* variance) {
  const std::int64_t stride = 2 * layout.channels;
  std::fill_n(mean, count, 0.0);
  std::fill_n(variance, count, 0.0);
  if (layout.rows == 0) return;
  const auto all_rows = static_cast<double>(layout.rows);
  const auto weight = [&](std::int64_t chunk) {
    return static_cast<double>(layout.size(chunk) / layout.channels) / all_rows;
  };
  for (std::int64_t chunk = 0; chunk < layout.chunks(); ++chunk) {
    const double* centre = partials + chunk * stride + channel;
    for (std::int64_t i = 0; i < count; ++i) mean[i] += weight(chunk) * centre[i];
  }
  for (std::int64_t chunk = 0; chunk < layout.chunks(); ++chunk) {
    const double* centre = partials + chunk * stride + channel;
    const double* squares = centre + layout.channels;
    for (std::int64_t i = 0; i < count; ++i) {
      const double offset = centre[i] - mean[i];
      variance[i] += squares[i] / all_rows + weight(chunk) * offset * offset;
    }
  }
  // Below zero only by rounding; a NaN stays.
  for (std::int64_t i = 0; i < count; ++i) variance[i] = variance[i] < 0 ? 0 : variance[i];
}

/// dy, or with y (of a relu) dy where y > 0 and 0 elsewhere.
template <class E, class T>
DEMI_INLINE Vec<E> masked_gradient(const T* dy, const T* y, std::int64_t at, std::int64_t count) {
  const Vec<E> d = load_up_to<E>(dy + at, count);
  if (y == nullptr) return d;
  const Vec<E> zero = {};
  return load_up_to<E>(y + at, count) > zero ? d : zero;
}

/// For each channel of one chunk the sums of d and d · (x - mean), d the masked gradient, into
/// partials [2, channels]. `mean` is per lane; `scratch` has 2 · width elements.
template <class E, class T>
void chunk_products(const Layout& layout, std::int64_t chunk, const T* dy, const T* x, const T* y,
                    const E* mean, E* scratch, double* partials) {
  sum_groups<E, 2, 4>(
      layout, chunk, scratch,
      [&](std::int64_t at, std::int64_t lane, std::int64_t count) __attribute__((always_inline)) {
        const Vec<E> d = masked_gradient<E>(dy, y, at, count);
        const Vec<E> deviation = load_up_to<E>(x + at, count) - load<E>(mean + lane);
        return Terms<E, 2>{{d, d * deviation}};
      });
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t channel = 0; channel < layout.channels; ++channel) {
      double sum = 0;
      for (std::int64_t lane = channel; lane < layout.width; lane += layout.channels) {
        sum += scratch[i * layout.width + lane];
      }
      partials[i * layout.channels + channel] = sum;
    }
  }
}

/// The sums over all chunks, from and into [2, channels].
inline void merge_products(const Layout& layout, const double* partials, std::int64_t channel,
                           std::int64_t count, double* sum, double* product) {
  std::fill_n(sum, count, 0.0);
  std::fill_n(product, count, 0.0);
  for (std::int64_t chunk = 0; chunk < layout.chunks(); ++chunk) {
    const double* from = partials + chunk * 2 * layout.channels + channel;
    for (std::int64_t i = 0; i < count; ++i) sum[i] += from[i];
    for (std::int64_t i = 0; i < count; ++i) product[i] += from[layout.channels + i];
  }
}

}  // namespace demi::cpu::batch_norm
