// What the batch_norm kernels share: how x is cut into lanes and chunks, and loops over them.
//
// Note [Lanes]
// x [rows, c] is taken as groups of `repeat` rows, one group `width` = repeat · c elements, so that
// a group is a whole number of vectors for any c and its element i always belongs to channel i % c.
// Sums are kept per lane (place in a group), brought together per channel at the end of a chunk,
// and over the chunks in their order. Only the very last group may be incomplete.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include <demi/shape.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd_tail.h"
#include "kernels/cpu/thread_pool.h"

namespace demi::cpu::batch_norm {

using namespace DEMI_CPU_ISA;  // NOLINT(google-build-using-namespace): the vectors of this family

struct Layout {
  std::int64_t rows;
  std::int64_t channels;
  std::int64_t width;         ///< lanes: a multiple of the channels and of a vector
  std::int64_t chunk_groups;  ///< groups in every chunk but the last

  [[nodiscard]] static Layout of(const Shape& x) {
    constexpr std::int64_t kMinWidth = 64;
    constexpr std::int64_t kChunkElements = 16384;
    constexpr std::int64_t kMinChunkGroups = 32;
    const std::int64_t channels = x[-1];
    if (channels == 0) return {0, 0, 0, 1};
    const std::int64_t whole = std::lcm(channels, std::int64_t{kLanes<float>});
    const std::int64_t width = (kMinWidth + whole - 1) / whole * whole;
    return {x.elements() / channels, channels, width,
            std::max(kChunkElements / width, kMinChunkGroups)};
  }

  [[nodiscard]] std::int64_t elements() const { return rows * channels; }
  [[nodiscard]] std::int64_t chunk_elements() const { return chunk_groups * width; }
  [[nodiscard]] std::int64_t chunks() const {
    return elements() == 0 ? 0 : (elements() + chunk_elements() - 1) / chunk_elements();
  }
  [[nodiscard]] std::int64_t begin(std::int64_t chunk) const { return chunk * chunk_elements(); }
  [[nodiscard]] std::int64_t size(std::int64_t chunk) const {
    return std::min(chunk_elements(), elements() - begin(chunk));
  }
};

/// What a kernel keeps in its workspace while it runs.
template <class E>
class Workspace {
 public:
  Workspace(const Layout& layout, void* memory)
      : layout_(layout),
        partials_(static_cast<double*>(memory)),
        lanes_(reinterpret_cast<E*>(partials_ + layout.chunks() * 2 * layout.channels)) {}

  [[nodiscard]] static std::size_t bytes(const Layout& layout, int threads) {
    return static_cast<std::size_t>(layout.chunks() * 2 * layout.channels) * sizeof(double) +
           static_cast<std::size_t>((kLaneArrays + threads * kScratchArrays) * layout.width) *
               sizeof(E);
  }

  /// What the chunks found, [chunks, 2, channels], and the part of one chunk.
  [[nodiscard]] double* partials() const { return partials_; }
  [[nodiscard]] double* partials_of(std::int64_t chunk) const {
    return partials_ + chunk * 2 * layout_.channels;
  }
  /// A parameter for each lane, [width]; array < 5.
  [[nodiscard]] E* lanes(int array) const { return lanes_ + array * layout_.width; }
  /// [3, width], of one thread.
  [[nodiscard]] E* scratch(int thread) const {
    return lanes_ + (kLaneArrays + thread * kScratchArrays) * layout_.width;
  }

 private:
  static constexpr int kLaneArrays = 5;
  static constexpr int kScratchArrays = 3;

  const Layout& layout_;
  double* partials_;
  E* lanes_;
};

/// The first `channels` elements, repeated for the other lanes.
template <class E>
void repeat(const Layout& layout, E* lanes) {
  for (std::int64_t i = layout.channels; i < layout.width; ++i) {
    lanes[i] = lanes[i - layout.channels];
  }
}

/// A parameter [c] of any floating dtype for each lane. Returns `lanes`.
template <class E>
E* spread(const Layout& layout, const void* parameter, DType dtype, E* lanes) {
  converter(dtype, dtype_of<E>)(parameter, lanes, layout.channels);
  repeat(layout, lanes);
  return lanes;
}

/// Calls body(element, lane, count) for each vector of a chunk; count is below kLanes<E> only at
/// the very end of x.
template <class E, class Body>
DEMI_INLINE void for_vectors(const Layout& layout, std::int64_t chunk, Body&& body) {
  constexpr std::int64_t kWidth = kLanes<E>;
  const std::int64_t end = layout.begin(chunk) + layout.size(chunk);
  std::int64_t element = layout.begin(chunk);
  for (; element + layout.width <= end; element += layout.width) {
    for (std::int64_t lane = 0; lane < layout.width; lane += kWidth) {
      body(element + lane, lane, kWidth);
    }
  }
  for (std::int64_t lane = 0; element + lane < end; lane += kWidth) {
    body(element + lane, lane, std::min(kWidth, end - element - lane));
  }
}

/// The N terms that one vector of x adds to the sums.
template <class E, int N>
struct Terms {
  Vec<E> of[N];
};

/// sums[N, width]: what terms(element, lane, count) gives, a Terms<E, N> that is zero beyond
/// `count`, summed over the groups of a chunk. V vectors of lanes are kept in registers at a time.
template <class E, int N, int V, class Fn>
void sum_groups(const Layout& layout, std::int64_t chunk, E* sums, Fn&& terms) {
  constexpr std::int64_t kWidth = kLanes<E>;
  const std::int64_t width = layout.width;
  const std::int64_t begin = layout.begin(chunk);
  const std::int64_t end = begin + layout.size(chunk);
  const std::int64_t whole = end - layout.size(chunk) % width;
  const auto block = [&]<int B>(std::int64_t lane) __attribute__((always_inline)) {
    Vec<E> sum[N][B] = {};
    for (std::int64_t at = begin; at < whole; at += width) {
      DEMI_UNROLL
      for (int b = 0; b < B; ++b) {
        const Terms<E, N> term = terms(at + lane + b * kWidth, lane + b * kWidth, kWidth);
        DEMI_UNROLL
        for (int n = 0; n < N; ++n) sum[n][b] += term.of[n];
      }
    }
    DEMI_UNROLL
    for (int n = 0; n < N; ++n) {
      DEMI_UNROLL
      for (int b = 0; b < B; ++b) store<E>(sums + n * width + lane + b * kWidth, sum[n][b]);
    }
  };
  std::int64_t lane = 0;
  for (; lane + V * kWidth <= width; lane += V * kWidth) block.template operator()<V>(lane);
  for (; lane < width; lane += kWidth) block.template operator()<1>(lane);
  for (lane = 0; whole + lane < end; lane += kWidth) {
    const Terms<E, N> term = terms(whole + lane, lane, std::min(kWidth, end - whole - lane));
    for (int n = 0; n < N; ++n) {
      E* sum = sums + n * width + lane;
      store<E>(sum, load<E>(sum) + term.of[n]);
    }
  }
}

}  // namespace demi::cpu::batch_norm
