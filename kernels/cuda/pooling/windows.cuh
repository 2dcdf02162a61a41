// Where the windows of a pooling lie, and how its work is dealt to threads: each thread has one
// position (of the result, or of the image) and one packet of channels, neighbours first along the
// channels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include <demi/ops/pooling.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/packet.cuh"
#include "kernels/kernel.h"

namespace demi::cuda::pooling {

/// Half-open.
struct Range {
  int begin;
  int end;
};

/// One axis of a pooling.
struct Axis {
  int extent;   ///< of the image
  int windows;  ///< window positions
  int size;
  int stride;
  int padding;  ///< before the image

  /// The part of window `o` inside the image, in image positions.
  [[nodiscard]] __host__ __device__ Range inside(int o) const {
    const int start = o * stride - padding;
    return {start > 0 ? start : 0, start + size < extent ? start + size : extent};
  }
  /// The windows that cover image position `i`.
  [[nodiscard]] __host__ __device__ Range covering(int i) const {
    const int reach = i + padding - size + stride;
    const int end = (i + padding) / stride + 1;
    return {reach > 0 ? reach / stride : 0, end < windows ? end : windows};
  }
  /// The positions that window `o` answers for where none overlap: its own and those up to the
  /// next window.
  [[nodiscard]] __host__ __device__ Range owned(int o) const {
    return {o == 0 ? 0 : inside(o).begin, o + 1 == windows ? extent : inside(o + 1).begin};
  }
  /// The place of image position `i` in window `o`.
  [[nodiscard]] __host__ __device__ int place(int i, int o) const {
    return i - (o * stride - padding);
  }
  [[nodiscard]] bool is_disjoint() const { return stride >= size; }
  /// Whether every window lies in the image as a whole.
  [[nodiscard]] bool is_unpadded() const {
    return padding == 0 && (windows - 1) * stride + size <= extent;
  }
};

/// What one thread works on.
struct Position {
  int image;
  int row;
  int column;
  int channel;  ///< the first of a packet
};

struct Windows {
  int images;
  int channels;
  Axis rows;
  Axis columns;

  [[nodiscard]] __host__ __device__ int image_row() const { return columns.extent * channels; }
  [[nodiscard]] __host__ __device__ int pooled_row() const { return columns.windows * channels; }
  [[nodiscard]] __host__ __device__ int image_elements() const { return rows.extent * image_row(); }
  [[nodiscard]] __host__ __device__ int pooled_elements() const {
    return rows.windows * pooled_row();
  }
  /// Offset of a position of the image, or of the result.
  [[nodiscard]] __host__ __device__ int image_offset(const Position& at) const {
    return at.image * image_elements() + at.row * image_row() + at.column * channels + at.channel;
  }
  [[nodiscard]] __host__ __device__ int pooled_offset(const Position& at) const {
    return at.image * pooled_elements() + at.row * pooled_row() + at.column * channels + at.channel;
  }
};

/// Calls body(position) for the positions of this thread among images × rows × columns and packets
/// of N channels.
template <int N, class Body>
__device__ inline void for_positions(const Windows& p, int rows, int columns, Body&& body) {
  const unsigned packets = static_cast<unsigned>(p.channels / N);
  const unsigned count = static_cast<unsigned>(p.images * rows * columns) * packets;
  const unsigned step = gridDim.x * blockDim.x;
  for (unsigned item = blockIdx.x * blockDim.x + threadIdx.x; item < count; item += step) {
    const unsigned pixel = item / packets;
    const unsigned row = pixel / static_cast<unsigned>(columns);
    const unsigned image = row / static_cast<unsigned>(rows);
    body(Position{static_cast<int>(image), static_cast<int>(row) - static_cast<int>(image) * rows,
                  static_cast<int>(pixel) - static_cast<int>(row) * columns,
                  static_cast<int>(item - pixel * packets) * N});
  }
}

/// A pooling of any number of images. The kernels count in 32 bits, so it is cut into launches.
class Problem {
 public:
  /// Empty, with a reason, if the floating tensors of the request differ in dtype or one image is
  /// too large.
  [[nodiscard]] static std::optional<Problem> of(const KernelRequest& request, const Shape& image,
                                                 const Shape& pooled, std::string& reason);

  [[nodiscard]] const Windows& windows() const { return windows_; }
  [[nodiscard]] std::int64_t images() const { return images_; }

  /// How often for_launches() calls its body.
  [[nodiscard]] int launches() const {
    int count = 0;
    for_launches([&count](const Windows&, std::int64_t) { ++count; });
    return count;
  }

  /// Calls body(windows, first) for runs of images, `first` being the number of images before one.
  template <class Body>
  void for_launches(Body&& body) const {
    if (windows_.image_elements() == 0 || windows_.pooled_elements() == 0) return;
    const std::int64_t most =
        kMaxElements / std::max(windows_.image_elements(), windows_.pooled_elements());
    for (std::int64_t first = 0; first < images_; first += most) {
      Windows part = windows_;
      part.images = static_cast<int>(std::min(most, images_ - first));
      body(part, first);
    }
  }

 private:
  static constexpr std::int64_t kMaxElements = std::numeric_limits<int>::max();

  Windows windows_ = {};
  std::int64_t images_ = 0;
};

inline std::optional<Problem> Problem::of(const KernelRequest& request, const Shape& image,
                                          const Shape& pooled, std::string& reason) {
  for (const TensorType& input : request.inputs) {
    if (is_floating(input.dtype) && input.dtype != request.outputs[0].dtype) {
      reason = "it computes tensors of one dtype";
      return std::nullopt;
    }
  }
  const auto elements = [](const Shape& s) { return s[1] * s[2] * s[3]; };
  if (std::max(elements(image), elements(pooled)) > kMaxElements) {
    reason = "one image has 2^31 elements or more";
    return std::nullopt;
  }
  const auto& attributes = request.attributes.as<ops::Pool2DAttributes>();
  const auto axis = [&](int i, std::int64_t padding) {
    const auto at = static_cast<std::size_t>(i);
    // A stride beyond the image leaves one window, however long it is.
    const std::int64_t stride = std::min(attributes.strides[at], std::int64_t{1} << 30);
    return Axis{static_cast<int>(image[1 + i]), static_cast<int>(pooled[1 + i]),
                static_cast<int>(attributes.pool_size[at]), static_cast<int>(stride),
                static_cast<int>(padding)};
  };
  Problem problem;
  problem.images_ = image[0];
  problem.windows_ = {0, static_cast<int>(image[3]), axis(0, attributes.padding.top),
                      axis(1, attributes.padding.left)};
  return problem;
}

inline constexpr int kThreads = 256;

/// Starts a kernel, whose first argument is `p`, with a thread for each of `rows` × `columns`
/// positions of every image and packet of `length` channels.
template <class Kernel, class... Arguments>
void launch_positions(Kernel kernel, const Windows& p, int rows, int columns, int length,
                      cudaStream_t stream, Arguments... arguments) {
  const std::int64_t items = std::int64_t{p.images} * rows * columns * (p.channels / length);
  launch(kernel, blocks_for(items, kThreads), kThreads, 0, stream, p, arguments...);
}

/// body(type tag, packet length) with the device type of `dtype` and the longest packets that the
/// channels allow; null, with a reason, for dtypes that are not floating.
template <class Body>
[[nodiscard]] std::unique_ptr<Kernel> dispatch_packets(DType dtype, const Problem& problem,
                                                       std::string& reason, Body&& body) {
  return dispatch_floating(dtype, reason, [&](auto tag) -> std::unique_ptr<Kernel> {
    constexpr int kLength = kPacketLength<typename decltype(tag)::type>;
    if (problem.windows().channels % kLength == 0) {
      return body(tag, std::integral_constant<int, kLength>{});
    }
    return body(tag, std::integral_constant<int, 1>{});
  });
}

}  // namespace demi::cuda::pooling
