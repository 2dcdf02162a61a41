// A convolution and its gradients as matrix products whose left matrix is never stored: the product
// kernel asks for its elements by row and term.
//
//   forward           y[pixels, co]  = patches[pixels, taps] · filter[taps, co]
//   gradient of x     dx[image, ci]  = patches of dy[image, kh · kw · co] · filter'[kh · kw · co,
//   ci] gradient of w     dw[taps, co]   = patches'[taps, pixels] · dy[pixels, co]
// for each group of channels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/any_element.cuh"
#include "kernels/cuda/conv2d/problem.h"
#include "kernels/cuda/launch.cuh"

namespace demi::cuda {

/// A Conv2DProblem for device code.
struct DirectGeometry {
  std::int64_t n;
  int h, w, ci, oh, ow, co, kh, kw;
  int stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left;
  int groups, group_in, group_out;
  int filter_is_ohwi;  ///< flag; Note [Filter layouts]

  /// Where the weight of a tap (of all kh · kw · ci / groups) and an output channel lies.
  __device__ std::int64_t weight_at(std::int64_t tap, std::int64_t channel) const {
    if (filter_is_ohwi != 0) return channel * kh * kw * group_in + tap;
    return tap * co + channel;
  }
  /// Elements of one image of x, and of one of y.
  __host__ __device__ std::int64_t x_image() const { return static_cast<std::int64_t>(h) * w * ci; }
  __host__ __device__ std::int64_t y_image() const {
    return static_cast<std::int64_t>(oh) * ow * co;
  }
};

inline DirectGeometry make_geometry(const Conv2DProblem& p) {
  const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
  return {p.n,
          narrow(p.h),
          narrow(p.w),
          narrow(p.ci),
          narrow(p.oh),
          narrow(p.ow),
          narrow(p.co),
          narrow(p.kh),
          narrow(p.kw),
          narrow(p.stride_h),
          narrow(p.stride_w),
          narrow(p.dilation_h),
          narrow(p.dilation_w),
          narrow(p.pad_top),
          narrow(p.pad_left),
          narrow(p.groups),
          narrow(p.group_in()),
          narrow(p.group_out()),
          p.filter_is_ohwi ? 1 : 0};
}

/// Somewhere in a batch: an image's first element and a place in it, which may lie outside.
struct DirectPixel {
  std::int64_t image;
  int y, x;
};

/// An offset from a pixel and a channel.
struct DirectTap {
  int y, x, channel;
};

/// The place of pixel number `i` of images of `height` × `width` that have `elements` elements.
__device__ inline DirectPixel pixel_at(std::int64_t i, int height, int width,
                                       std::int64_t elements) {
  const std::int64_t row = i / width;
  return {row / height * elements, static_cast<int>(row % height), static_cast<int>(i % width)};
}

/// Tap number `k` of a filter whose innermost extent is `channels`, of which the first is `first`.
__device__ inline DirectTap tap_at(const DirectGeometry& g, int k, int channels, int first) {
  const int place = k / channels;
  return {place / g.kw * g.dilation_h, place % g.kw * g.dilation_w, first + k % channels};
}

/// The upper left pixel of x under output pixel number `i`.
__device__ inline DirectPixel patch_at(const DirectGeometry& g, std::int64_t i) {
  DirectPixel pixel = pixel_at(i, g.oh, g.ow, g.x_image());
  pixel.y = pixel.y * g.stride_h - g.pad_top;
  pixel.x = pixel.x * g.stride_w - g.pad_left;
  return pixel;
}

/// The element of x at a patch's tap, 0 in the padding.
template <class C>
__device__ C patch_element(const DirectGeometry& g, const AnyInput& x, const DirectPixel& patch,
                           const DirectTap& tap) {
  const int row = patch.y + tap.y;
  const int column = patch.x + tap.x;
  if (row < 0 || row >= g.h || column < 0 || column >= g.w) return C{0};
  return x.get<C>(patch.image + (static_cast<std::int64_t>(row) * g.w + column) * g.ci +
                  tap.channel);
}

// A product has, for each of `groups`, m() × n() results of k() terms each; kTermsAdjoin says that
// consecutive terms of a row of the left matrix adjoin in memory, kRightTermsAdjoin the same of a
// column of the right one: neighbouring threads load these.

template <class C>
struct DirectForward {
  using Sum = C;
  using Row = DirectPixel;
  using Term = DirectTap;
  static constexpr bool kTermsAdjoin = true;
  static constexpr bool kRightTermsAdjoin = false;

  DirectGeometry g;
  AnyInput x, filter, bias;
  AnyOutput y;
  bool relu;

  __host__ __device__ std::int64_t m() const { return g.n * g.oh * g.ow; }
  __host__ __device__ std::int64_t n() const { return g.group_out; }
  __host__ __device__ std::int64_t k() const {
    return static_cast<std::int64_t>(g.kh) * g.kw * g.group_in;
  }
  __host__ __device__ std::int64_t split_count() const { return 1; }

  __device__ Row row(int, std::int64_t i) const { return patch_at(g, i); }
  __device__ Term term(int group, std::int64_t k) const {
    return tap_at(g, static_cast<int>(k), g.group_in, group * g.group_in);
  }
  __device__ C left(const Row& row, const Term& term) const {
    return patch_element<C>(g, x, row, term);
  }
  __device__ C right(int group, std::int64_t k, std::int64_t column) const {
    return filter.get<C>(g.weight_at(k, group * g.group_out + column));
  }
  __device__ void put(int group, std::int64_t, std::int64_t row, std::int64_t column,
                      C value) const {
    const std::int64_t channel = group * g.group_out + column;
    if (bias.data != nullptr) value += bias.get<C>(channel);
    if (relu && value < C{0}) value = C{0};
    y.set(row * g.co + channel, value);
  }
};

template <class C>
struct DirectBackwardInput {
  using Sum = C;
  using Row = DirectPixel;
  using Term = DirectTap;
  static constexpr bool kTermsAdjoin = true;
  static constexpr bool kRightTermsAdjoin = true;

  DirectGeometry g;
  AnyInput dy, filter;
  AnyOutput dx;

  __host__ __device__ std::int64_t m() const { return g.n * g.h * g.w; }
  __host__ __device__ std::int64_t n() const { return g.group_in; }
  __host__ __device__ std::int64_t k() const {
    return static_cast<std::int64_t>(g.kh) * g.kw * g.group_out;
  }
  __host__ __device__ std::int64_t split_count() const { return 1; }

  /// Where the pixel lies in the padded image, in the image of dy that belongs to it.
  __device__ Row row(int, std::int64_t i) const {
    DirectPixel pixel = pixel_at(i, g.h, g.w, g.y_image());
    pixel.y += g.pad_top;
    pixel.x += g.pad_left;
    return pixel;
  }
  __device__ Term term(int group, std::int64_t k) const {
    return tap_at(g, static_cast<int>(k), g.group_out, group * g.group_out);
  }
  /// dy where the tap met the pixel, if it did.
  __device__ C left(const Row& row, const Term& term) const {
    const int y = row.y - term.y;
    const int x = row.x - term.x;
    if (y < 0 || x < 0 || y % g.stride_h != 0 || x % g.stride_w != 0) return C{0};
    const int oy = y / g.stride_h;
    const int ox = x / g.stride_w;
    if (oy >= g.oh || ox >= g.ow) return C{0};
    return dy.get<C>(row.image + (static_cast<std::int64_t>(oy) * g.ow + ox) * g.co + term.channel);
  }
  __device__ C right(int group, std::int64_t k, std::int64_t column) const {
    const std::int64_t place = k / g.group_out;
    const std::int64_t channel = group * g.group_out + k % g.group_out;
    return filter.get<C>(g.weight_at(place * g.group_in + column, channel));
  }
  __device__ void put(int group, std::int64_t, std::int64_t row, std::int64_t column,
                      C value) const {
    dx.set(row * g.ci + group * g.group_in + column, value);
  }
};

template <class C>
struct DirectBackwardFilter {
  using Sum = C;
  using Row = DirectTap;
  using Term = DirectPixel;
  static constexpr bool kTermsAdjoin = false;
  static constexpr bool kRightTermsAdjoin = false;

  DirectGeometry g;
  AnyInput x, dy;
  AnyOutput dw;
  C* partial;  ///< [splits] gradients like dw, or null if there is one split
  std::int64_t splits;

  __host__ __device__ std::int64_t m() const {
    return static_cast<std::int64_t>(g.kh) * g.kw * g.group_in;
  }
  __host__ __device__ std::int64_t n() const { return g.group_out; }
  __host__ __device__ std::int64_t k() const { return g.n * g.oh * g.ow; }
  __host__ __device__ std::int64_t split_count() const { return splits; }

  __device__ Row row(int group, std::int64_t i) const {
    return tap_at(g, static_cast<int>(i), g.group_in, group * g.group_in);
  }
  __device__ Term term(int, std::int64_t k) const { return patch_at(g, k); }
  __device__ C left(const Row& row, const Term& term) const {
    return patch_element<C>(g, x, term, row);
  }
  __device__ C right(int group, std::int64_t k, std::int64_t column) const {
    return dy.get<C>(k * g.co + group * g.group_out + column);
  }
  __device__ void put(int group, std::int64_t split, std::int64_t row, std::int64_t column,
                      C value) const {
    const std::int64_t weight = g.weight_at(row, group * g.group_out + column);
    if (partial == nullptr) {
      dw.set(weight, value);
    } else {
      partial[split * m() * g.co + weight] = value;
    }
  }
};

// ---- The kernel
// ------------------------------------------------------------------------------------

inline constexpr int kProductTile = 64;   ///< rows and columns of a block's results
inline constexpr int kProductTerms = 16;  ///< terms per step
inline constexpr int kProductThreads = 256;
inline constexpr int kProductShare = 4;  ///< a thread has 4 × 4 results and loads 4 + 4 elements

__host__ __device__ inline std::int64_t product_tiles(std::int64_t extent) {
  return (extent + kProductTile - 1) / kProductTile;
}

/// The sums of one tile of one split: 16 terms at a time through shared memory.
template <class Product>
__global__ void product_kernel(Product p) {
  using C = typename Product::Sum;
  DEMI_SHARED(C, left, [kProductTerms][kProductTile + 1]);
  DEMI_SHARED(C, right, [kProductTerms][kProductTile + 1]);
  const std::int64_t splits = p.split_count();
  const std::int64_t tiles_down = product_tiles(p.m());
  const std::int64_t tiles_across = product_tiles(p.n());
  std::int64_t block = blockIdx.x;
  const std::int64_t split = block % splits;
  block /= splits;
  const std::int64_t row0 = block % tiles_down * kProductTile;
  block /= tiles_down;
  const std::int64_t column0 = block % tiles_across * kProductTile;
  const int group = static_cast<int>(block / tiles_across);
  const std::int64_t share = (p.k() + splits - 1) / splits;
  const std::int64_t first = split * share;
  const std::int64_t last = first + share < p.k() ? first + share : p.k();

  // Thread t's elements of the left matrix: one term of 4 rows, or 4 terms of one row, so that
  // neighbours load what adjoins. Rows are taken apart once.
  const int t = static_cast<int>(threadIdx.x);
  constexpr bool kByTerm = Product::kTermsAdjoin;
  constexpr int kRows = kByTerm ? kProductShare : 1;
  typename Product::Row rows[kRows];
  DEMI_UNROLL
  for (int i = 0; i < kRows; ++i) {
    rows[i] = p.row(group, row0 + (kByTerm ? t / kProductTerms + 16 * i : t % kProductTile));
  }

  C sums[kProductShare][kProductShare] = {};
  const int tx = t % 16;
  const int ty = t / 16;
  for (std::int64_t k0 = first; k0 < last; k0 += kProductTerms) {
    DEMI_UNROLL
    for (int i = 0; i < kProductShare; ++i) {
      const int k = kByTerm ? t % kProductTerms : t / kProductTile + 4 * i;
      const int row = kByTerm ? t / kProductTerms + 16 * i : t % kProductTile;
      const bool inside = k0 + k < last && row0 + row < p.m();
      left[k][row] = inside ? p.left(rows[kByTerm ? i : 0], p.term(group, k0 + k)) : C{0};
    }
    DEMI_UNROLL
    for (int i = 0; i < kProductShare; ++i) {
      constexpr bool kRightByTerm = Product::kRightTermsAdjoin;
      const int k = kRightByTerm ? t % kProductTerms : t / kProductTile + 4 * i;
      const int column = kRightByTerm ? t / kProductTerms + 16 * i : t % kProductTile;
      const bool inside = k0 + k < last && column0 + column < p.n();
      right[k][column] = inside ? p.right(group, k0 + k, column0 + column) : C{0};
    }
    __syncthreads();
    DEMI_UNROLL
    for (int k = 0; k < kProductTerms; ++k) {
      DEMI_UNROLL
      for (int i = 0; i < kProductShare; ++i) {
        DEMI_UNROLL
        for (int j = 0; j < kProductShare; ++j) {
          sums[i][j] += left[k][ty * kProductShare + i] * right[k][tx + 16 * j];
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kProductShare; ++i) {
    const std::int64_t row = row0 + ty * kProductShare + i;
    for (int j = 0; j < kProductShare; ++j) {
      const std::int64_t column = column0 + tx + 16 * j;
      if (row < p.m() && column < p.n()) p.put(group, split, row, column, sums[i][j]);
    }
  }
}

template <class Product>
std::int64_t block_count(const Product& p) {
  return p.split_count() * product_tiles(p.m()) * product_tiles(p.n()) * p.g.groups;
}

template <class Product>
void launch_product(const Product& p, cudaStream_t stream) {
  launch(product_kernel<Product>, dim3(static_cast<unsigned>(block_count(p))),
         dim3(kProductThreads), 0, stream, p);
}

// ---- Sums over pixels in several blocks
// ------------------------------------------------------------

/// Into how many parts the sums of a filter gradient are cut that has `blocks` tiles: enough blocks
/// to fill a GPU, of at least 512 pixels. It follows from the shape alone, so that results do not
/// depend on the device.
inline std::int64_t filter_splits(std::int64_t blocks, std::int64_t pixels) {
  const std::int64_t wanted = 512 / std::max<std::int64_t>(blocks, 1);
  return std::clamp<std::int64_t>(std::min(wanted, pixels / 512), 1, 128);
}

/// out = the parts, added in order.
template <class C>
__global__ void partial_sums_kernel(const C* partial, std::int64_t parts, std::int64_t count,
                                    AnyOutput out) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    C sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * count + i];
    out.set(i, sum);
  }
}

template <class C>
void launch_partial_sums(const C* partial, std::int64_t parts, std::int64_t count,
                         const AnyOutput& out, cudaStream_t stream) {
  launch(partial_sums_kernel<C>, dim3(blocks_for(count, kProductThreads)), dim3(kProductThreads), 0,
         stream, partial, parts, count, out);
}

}  // namespace demi::cuda
