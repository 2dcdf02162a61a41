// Kernels of the family pooling.
//
// Each element of a result is written once, so nothing is cleared first and sums have one order:
// where windows overlap, a backward op visits the windows that cover an input position; where they
// are disjoint, each window writes the positions up to the next one. A vector of channels at a
// time.

#include "kernels/cpu/pooling.h"

#include <vector>

#include <demi/ops/pooling.h>

#include "kernels/cpu/dispatch_floating.h"
#include "kernels/cpu/ranges.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/simd_tail.h"

namespace demi::cpu {
namespace {

using namespace DEMI_CPU_ISA;  // NOLINT(google-build-using-namespace): this file's vectors

/// Half-open range of positions along one axis.
struct Range {
  std::int64_t begin;
  std::int64_t end;
};

/// One axis of a pooling.
struct Axis {
  std::int64_t extent;   ///< of the image
  std::int64_t windows;  ///< window positions
  std::int64_t size;
  std::int64_t stride;
  std::int64_t padding;         ///< before the image
  std::vector<Range> covering;  ///< for each image position the windows that cover it

  Axis(std::int64_t image, std::int64_t pooled, std::int64_t window, std::int64_t step,
       std::int64_t before)
      : extent(image), windows(pooled), size(window), stride(step), padding(before) {
    for (std::int64_t i = 0; i < extent; ++i) {
      const std::int64_t last = (i + padding) / stride;
      const std::int64_t first = std::max<std::int64_t>(i + padding - size + stride, 0) / stride;
      covering.push_back({first, std::min(last + 1, windows)});
    }
  }

  /// Whether no two windows overlap.
  [[nodiscard]] bool is_disjoint() const { return stride >= size; }
  /// The positions that disjoint window `o` answers for: its own and those up to the next window.
  [[nodiscard]] Range owned(std::int64_t o) const {
    return {o == 0 ? 0 : inside(o).begin, o + 1 == windows ? extent : inside(o + 1).begin};
  }
  /// The part of window `o` inside the image, in image positions.
  [[nodiscard]] Range inside(std::int64_t o) const {
    const std::int64_t start = o * stride - padding;
    return {std::max<std::int64_t>(start, 0), std::min(start + size, extent)};
  }
  /// The place of image position `i` in window `o`.
  [[nodiscard]] int place(std::int64_t i, std::int64_t o) const {
    return static_cast<int>(i - (o * stride - padding));
  }
};

struct Pooling {
  std::int64_t images;
  std::int64_t channels;
  Axis rows;
  Axis columns;

  [[nodiscard]] std::int64_t image_row() const { return columns.extent * channels; }
  [[nodiscard]] std::int64_t pooled_row() const { return columns.windows * channels; }
};

Pooling pooling_of(const ops::Pool2DAttributes& attributes, const Shape& image,
                   const Shape& pooled) {
  const auto axis = [&](int i, std::int64_t padding) {
    const auto at = static_cast<std::size_t>(i);
    return Axis{image[1 + i], pooled[1 + i], attributes.pool_size[at], attributes.strides[at],
                padding};
  };
  return {image[0], image[3], axis(0, attributes.padding.top), axis(1, attributes.padding.left)};
}

/// Calls body(row) for each of `count` rows of `elements` elements.
template <class Body>
void for_rows(ThreadPool& pool, std::int64_t count, std::int64_t elements, Body&& body) {
  const std::int64_t grain =
      std::max<std::int64_t>(kElementwiseGrain / std::max<std::int64_t>(elements, 1), 1);
  for_ranges(pool, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

/// Calls body(channel, count) for groups of a vector of channels. The last group of many reaches
/// back over channels already done; only fewer channels than a vector make a shorter group.
template <class E, class Body>
DEMI_INLINE void for_vectors(std::int64_t channels, Body&& body) {
  constexpr std::int64_t kWidth = kLanes<E>;
  if (channels < kWidth) return body(std::int64_t{0}, channels);
  for (std::int64_t c = 0; c < channels; c += kWidth) body(std::min(c, channels - kWidth), kWidth);
}

/// Window places, one per lane of a Vec<E>, and how they are stored.
template <class E>
using Places = decltype(Vec<E>{} > Vec<E>{});
template <class E>
struct PlaceBytes {
  typedef std::uint8_t Type __attribute__((vector_size(kLanes<E>)));
};

template <class E>
DEMI_INLINE void store_places(std::uint8_t* p, Places<E> places, std::int64_t count) {
  const auto bytes = __builtin_convertvector(places, typename PlaceBytes<E>::Type);
  __builtin_memcpy(p, &bytes, static_cast<std::size_t>(count));
}

template <class E>
DEMI_INLINE Places<E> load_places(const std::uint8_t* p, std::int64_t count) {
  typename PlaceBytes<E>::Type bytes = {};
  if (count == kLanes<E>) {
    __builtin_memcpy(&bytes, p, sizeof(bytes));
  } else {
    __builtin_memcpy(&bytes, p, static_cast<std::size_t>(count));
  }
  return __builtin_convertvector(bytes, Places<E>);
}

// ---- Maximum

/// One window: y and place of the maximum of x over rows × columns.
template <class E, class T>
DEMI_INLINE void max_of_window(const Pooling& p, const T* image, Range rows, Range columns,
                               std::int64_t oy, std::int64_t ox, bool with_relu, T* y,
                               std::uint8_t* index) {
  for_vectors<E>(p.channels, [&](std::int64_t c, std::int64_t count) {
    Vec<E> best = {};
    Places<E> place = {};
    bool first = true;
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const T* row = image + i * p.image_row() + c;
      const int row_place = p.rows.place(i, oy) * static_cast<int>(p.columns.size);
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        const Vec<E> x = load_up_to<E>(row + j * p.channels, count);
        const Places<E> here = Places<E>{} + (row_place + p.columns.place(j, ox));
        // Also true where x is NaN, but not once the best is.
        const Places<E> better = first ? Places<E>{} - 1 : ~(x <= best) & (best == best);
        best = better ? x : best;
        place = better ? here : place;
        first = false;
      }
    }
    store_up_to<E>(y + c, with_relu ? relu<E>(best) : best, count);
    store_places<E>(index + c, place, count);
  });
}

template <class T>
void max_pool(const Pooling& p, bool with_relu, const T* x, T* y, std::uint8_t* index,
              ThreadPool& pool) {
  for_rows(pool, p.images * p.rows.windows, p.image_row(), [&](std::int64_t row) {
    const std::int64_t oy = row % p.rows.windows;
    const T* image = x + row / p.rows.windows * p.rows.extent * p.image_row();
    for (std::int64_t ox = 0; ox < p.columns.windows; ++ox) {
      const std::int64_t at = row * p.pooled_row() + ox * p.channels;
      max_of_window<ComputeType<T>>(p, image, p.rows.inside(oy), p.columns.inside(ox), oy, ox,
                                    with_relu, y + at, index + at);
    }
  });
}

/// dx at one position: the dy of those of the windows rows × columns whose maximum it was. `y` is
/// null without relu.
template <class E, class T>
DEMI_INLINE void max_pool_backward_at(const Pooling& p, std::int64_t i, std::int64_t j, Range rows,
                                      Range columns, const T* dy, const std::uint8_t* index,
                                      const T* y, T* dx) {
  for_vectors<E>(p.channels, [&](std::int64_t c, std::int64_t count) {
    Vec<E> sum = {};
    for (std::int64_t oy = rows.begin; oy < rows.end; ++oy) {
      for (std::int64_t ox = columns.begin; ox < columns.end; ++ox) {
        const std::int64_t at = oy * p.pooled_row() + ox * p.channels + c;
        const int here =
            p.rows.place(i, oy) * static_cast<int>(p.columns.size) + p.columns.place(j, ox);
        Places<E> chosen = load_places<E>(index + at, count) == Places<E>{} + here;
        if (y != nullptr) chosen &= load_up_to<E>(y + at, count) > Vec<E>{};
        sum += chosen ? load_up_to<E>(dy + at, count) : Vec<E>{};
      }
    }
    store_up_to<E>(dx + c, sum, count);
  });
}

template <class T>
void max_pool_backward(const Pooling& p, const T* dy, const std::uint8_t* index, const T* y, T* dx,
                       ThreadPool& pool) {
  for_rows(pool, p.images * p.rows.extent, p.image_row(), [&](std::int64_t row) {
    const std::int64_t i = row % p.rows.extent;
    const Range rows = p.rows.covering[static_cast<std::size_t>(i)];
    const std::int64_t image = row / p.rows.extent * p.rows.windows * p.pooled_row();
    for (std::int64_t j = 0; j < p.columns.extent; ++j) {
      max_pool_backward_at<ComputeType<T>>(
          p, i, j, rows, p.columns.covering[static_cast<std::size_t>(j)], dy + image, index + image,
          y == nullptr ? nullptr : y + image, dx + row * p.image_row() + j * p.channels);
    }
  });
}

/// dx at all positions that disjoint window (oy, ox) of an image answers for. `dy`, `index` and `y`
/// point at the window, `dx` at the image.
template <class E, class T>
DEMI_INLINE void max_pool_backward_window(const Pooling& p, std::int64_t oy, std::int64_t ox,
                                          const T* dy, const std::uint8_t* index, const T* y,
                                          T* dx) {
  const Range rows = p.rows.owned(oy);
  const Range columns = p.columns.owned(ox);
  const std::int64_t last_row = p.rows.inside(oy).end;
  const std::int64_t last_column = p.columns.inside(ox).end;
  for_vectors<E>(p.channels, [&](std::int64_t c, std::int64_t count) {
    const Vec<E> zero = {};
    Vec<E> gradient = load_up_to<E>(dy + c, count);
    if (y != nullptr) gradient = load_up_to<E>(y + c, count) > zero ? gradient : zero;
    const Places<E> place = load_places<E>(index + c, count);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const int row_place = p.rows.place(i, oy) * static_cast<int>(p.columns.size);
      T* row = dx + i * p.image_row() + c;
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        const bool inside = i < last_row && j < last_column;
        const int here = inside ? row_place + p.columns.place(j, ox) : -1;
        store_up_to<E>(row + j * p.channels, place == Places<E>{} + here ? gradient : zero, count);
      }
    }
  });
}

template <class T>
void max_pool_backward_disjoint(const Pooling& p, const T* dy, const std::uint8_t* index,
                                const T* y, T* dx, ThreadPool& pool) {
  for_rows(pool, p.images * p.rows.windows, p.rows.stride * p.image_row(), [&](std::int64_t row) {
    const std::int64_t oy = row % p.rows.windows;
    T* image = dx + row / p.rows.windows * p.rows.extent * p.image_row();
    for (std::int64_t ox = 0; ox < p.columns.windows; ++ox) {
      const std::int64_t at = row * p.pooled_row() + ox * p.channels;
      max_pool_backward_window<ComputeType<T>>(p, oy, ox, dy + at, index + at,
                                               y == nullptr ? nullptr : y + at, image);
    }
  });
}

// ---- Mean

/// Elements of window (oy, ox) inside the image.
template <class E>
E window_elements(const Pooling& p, std::int64_t oy, std::int64_t ox) {
  const Range rows = p.rows.inside(oy);
  const Range columns = p.columns.inside(ox);
  return static_cast<E>((rows.end - rows.begin) * (columns.end - columns.begin));
}

template <class T>
void average_pool(const Pooling& p, const T* x, T* y, ThreadPool& pool) {
  using E = ComputeType<T>;
  for_rows(pool, p.images * p.rows.windows, p.image_row(), [&](std::int64_t row) {
    const std::int64_t oy = row % p.rows.windows;
    const T* image = x + row / p.rows.windows * p.rows.extent * p.image_row();
    const Range rows = p.rows.inside(oy);
    for (std::int64_t ox = 0; ox < p.columns.windows; ++ox) {
      const Range columns = p.columns.inside(ox);
      T* to = y + row * p.pooled_row() + ox * p.channels;
      for_vectors<E>(p.channels, [&](std::int64_t c, std::int64_t count) {
        Vec<E> sum = {};
        for (std::int64_t i = rows.begin; i < rows.end; ++i) {
          for (std::int64_t j = columns.begin; j < columns.end; ++j) {
            sum += load_up_to<E>(image + i * p.image_row() + j * p.channels + c, count);
          }
        }
        store_up_to<E>(to + c, sum / broadcast<E>(window_elements<E>(p, oy, ox)), count);
      });
    }
  });
}

template <class T>
void average_pool_backward(const Pooling& p, const T* dy, T* dx, ThreadPool& pool) {
  using E = ComputeType<T>;
  for_rows(pool, p.images * p.rows.extent, p.image_row(), [&](std::int64_t row) {
    const Range rows = p.rows.covering[static_cast<std::size_t>(row % p.rows.extent)];
    const T* image = dy + row / p.rows.extent * p.rows.windows * p.pooled_row();
    for (std::int64_t j = 0; j < p.columns.extent; ++j) {
      const Range columns = p.columns.covering[static_cast<std::size_t>(j)];
      T* to = dx + row * p.image_row() + j * p.channels;
      for_vectors<E>(p.channels, [&](std::int64_t c, std::int64_t count) {
        Vec<E> sum = {};
        for (std::int64_t oy = rows.begin; oy < rows.end; ++oy) {
          for (std::int64_t ox = columns.begin; ox < columns.end; ++ox) {
            const T* from = image + oy * p.pooled_row() + ox * p.channels + c;
            sum += load_up_to<E>(from, count) / broadcast<E>(window_elements<E>(p, oy, ox));
          }
        }
        store_up_to<E>(to + c, sum, count);
      });
    }
  });
}

// ---- Candidates

/// Null, with a reason, unless all floating inputs and output 0 are of one floating dtype; else
/// what make.operator()<T>() gives for its storage type.
template <class Make>
std::unique_ptr<Kernel> one_dtype(const KernelRequest& request, std::string& reason, Make&& make) {
  const DType dtype = request.outputs[0].dtype;
  for (const TensorType& input : request.inputs) {
    if (is_floating(input.dtype) && input.dtype != dtype) {
      reason = "mixed dtypes";
      return nullptr;
    }
  }
  return dispatch_floating(dtype, reason, make);
}

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request, ThreadPool& pool,
                                          std::string& reason) {
  const Pooling p = pooling_of(request.attributes.as<ops::Pool2DAttributes>(),
                               request.inputs[0].shape, request.outputs[0].shape);
  return one_dtype(request, reason, [&]<class T> {
    return make_kernel("direct", 0, [p, &pool](const KernelArguments& arguments) {
      average_pool(p, arguments.input<T>(0), arguments.output<T>(0), pool);
    });
  });
}

std::unique_ptr<Kernel> make_average_pool_backward(const KernelRequest& request, ThreadPool& pool,
                                                   std::string& reason) {
  const Pooling p = pooling_of(request.attributes.as<ops::Pool2DAttributes>(),
                               request.outputs[0].shape, request.inputs[0].shape);
  return one_dtype(request, reason, [&]<class T> {
    return make_kernel("direct", 0, [p, &pool](const KernelArguments& arguments) {
      average_pool_backward(p, arguments.input<T>(0), arguments.output<T>(0), pool);
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_max_pool2d(const KernelRequest& request, ThreadPool& pool,
                                        std::string& reason) {
  const auto& attributes = request.attributes.as<ops::Pool2DAttributes>();
  const Pooling p = pooling_of(attributes, request.inputs[0].shape, request.outputs[0].shape);
  return one_dtype(request, reason, [&]<class T> {
    return make_kernel("direct", 0,
                       [p, &pool, relu = attributes.relu](const KernelArguments& arguments) {
                         max_pool(p, relu, arguments.input<T>(0), arguments.output<T>(0),
                                  arguments.output<std::uint8_t>(1), pool);
                       });
  });
}

std::unique_ptr<Kernel> make_max_pool2d_backward(const KernelRequest& request, ThreadPool& pool,
                                                 std::string& reason) {
  const auto& attributes = request.attributes.as<ops::Pool2DAttributes>();
  if (attributes.bias_gradient) {
    reason = "it sums no gradients";
    return nullptr;
  }
  const Pooling p = pooling_of(attributes, request.outputs[0].shape, request.inputs[0].shape);
  const bool disjoint = p.rows.is_disjoint() && p.columns.is_disjoint();
  return one_dtype(request, reason, [&]<class T> {
    const auto run = disjoint ? max_pool_backward_disjoint<T> : max_pool_backward<T>;
    return make_kernel("direct", 0,
                       [p, &pool, run, relu = attributes.relu](const KernelArguments& arguments) {
                         run(p, arguments.input<T>(0), arguments.input<std::uint8_t>(1),
                             relu ? arguments.input<T>(2) : nullptr, arguments.output<T>(0), pool);
                       });
  });
}

void register_pooling_kernels(Registry& registry) {
  registry.add("max_pool2d", "direct", make_max_pool2d);
  registry.add("max_pool2d_backward", "direct", make_max_pool2d_backward);
  registry.add("average_pool2d", "direct", make_average_pool);
  registry.add("average_pool2d_backward", "direct", make_average_pool_backward);
}

}  // namespace demi::cpu
