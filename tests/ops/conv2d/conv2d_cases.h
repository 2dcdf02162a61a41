// Convolutions as the tests of the ops need them: cases, and a reference that follows the
// definition product by product.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <demi/ops/conv2d.h>
#include <demi/ops/pooling.h>

#include "src/ir/emit.h"
#include "tests/support/op_harness.h"

namespace demi::testing::conv {

using ops::Conv2DAttributes;
using ops::Conv2DOptions;
using ops::PaddingMode;

inline constexpr DType kFloatingTypes[] = {float32, float64, float16, bfloat16};

struct Case {
  Shape x;
  Shape filter;
  Conv2DOptions options;
};

/// Plain; one channel to many; asymmetric same padding (stride 2, even filter); dilation; groups
/// and depthwise; one pixel; an empty batch; many pixels.
inline std::vector<Case> cases() {
  return {
      {{2, 7, 6, 3}, {3, 3, 3, 5}, {}},
      {{2, 10, 10, 1}, {3, 3, 1, 35}, {}},
      {{2, 8, 7, 4}, {4, 2, 4, 6}, {.strides = {2, 2}, .padding = PaddingMode::kSame}},
      {{1, 9, 8, 2}, {3, 2, 2, 3}, {.padding = PaddingMode::kSame, .dilation_rate = {2, 3}}},
      {{2, 6, 6, 6}, {3, 3, 2, 9}, {.padding = PaddingMode::kSame, .groups = 3}},
      {{1, 5, 5, 4}, {3, 3, 1, 8}, {.strides = {2, 1}, .groups = 4}},
      {{3, 1, 1, 35}, {1, 1, 35, 7}, {}},
      {{2, 1, 1, 3}, {3, 3, 3, 4}, {.padding = PaddingMode::kSame}},
      {{0, 5, 5, 3}, {3, 3, 3, 4}, {}},
      {{4, 20, 20, 2}, {3, 3, 2, 3}, {.padding = PaddingMode::kSame}},
  };
}

/// The taps of a convolution, by the definition of its options.
struct Taps {
  explicit Taps(const Case& c) : x(c.x), filter(c.filter), options(c.options) {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t extent = x[static_cast<int>(i) + 1];
      const std::int64_t span = (filter[static_cast<int>(i)] - 1) * options.dilation_rate[i] + 1;
      const std::int64_t stride = options.strides[i];
      if (options.padding == PaddingMode::kSame) {
        out[i] = (extent + stride - 1) / stride;
        before[i] = std::max<std::int64_t>((out[i] - 1) * stride + span - extent, 0) / 2;
      } else {
        out[i] = (extent - span) / stride + 1;
      }
    }
  }

  [[nodiscard]] Shape y() const { return {x[0], out[0], out[1], filter[3]}; }
  /// Terms in the longest of the three sums.
  [[nodiscard]] double terms() const {
    return static_cast<double>(
        std::max({filter.without_front().without_front().elements() * filter[0] * filter[1],
                  x[0] * out[0] * out[1]}));
  }

  /// Calls body(y index, x index, filter index) for each product of the convolution.
  template <class Body>
  void visit(Body&& body) const {
    const std::int64_t group_out = filter[3] / options.groups;
    for (std::int64_t o = 0; o < y().elements(); ++o) {
      const std::int64_t co = o % filter[3], ox = o / filter[3] % out[1];
      const std::int64_t oy = o / filter[3] / out[1] % out[0], n = o / filter[3] / out[1] / out[0];
      for (std::int64_t f = 0; f < filter[0] * filter[1] * filter[2]; ++f) {
        const std::int64_t ci = f % filter[2], kx = f / filter[2] % filter[1];
        const std::int64_t ky = f / filter[2] / filter[1];
        const std::int64_t i = oy * options.strides[0] - before[0] + ky * options.dilation_rate[0];
        const std::int64_t j = ox * options.strides[1] - before[1] + kx * options.dilation_rate[1];
        if (i < 0 || j < 0 || i >= x[1] || j >= x[2]) continue;
        const std::int64_t channel = co / group_out * filter[2] + ci;
        body(static_cast<std::size_t>(o),
             static_cast<std::size_t>(((n * x[1] + i) * x[2] + j) * x[3] + channel),
             static_cast<std::size_t>(f * filter[3] + co));
      }
    }
  }

  Shape x, filter;
  Conv2DOptions options;
  std::array<std::int64_t, 2> out{}, before{};
};

inline std::vector<double> forward(const Case& c, const Tensor& x, const Tensor& filter,
                                   const Tensor* bias = nullptr, bool relu = false) {
  const Taps taps(c);
  const std::vector<double> xs = to_doubles(x), fs = to_doubles(filter);
  std::vector<double> y(static_cast<std::size_t>(taps.y().elements()));
  taps.visit([&](std::size_t o, std::size_t i, std::size_t f) { y[o] += xs[i] * fs[f]; });
  for (std::size_t o = 0; o < y.size(); ++o) {
    if (bias != nullptr) y[o] += bias->at(static_cast<std::int64_t>(o) % c.filter[3]);
    if (relu) y[o] = std::max(y[o], 0.0);
  }
  return y;
}

inline std::vector<double> input_gradient(const Case& c, const std::vector<double>& dy,
                                          const Tensor& filter) {
  const std::vector<double> fs = to_doubles(filter);
  std::vector<double> dx(static_cast<std::size_t>(c.x.elements()));
  Taps(c).visit([&](std::size_t o, std::size_t i, std::size_t f) { dx[i] += dy[o] * fs[f]; });
  return dx;
}

inline std::vector<double> filter_gradient(const Case& c, const std::vector<double>& dy,
                                           const Tensor& x) {
  const std::vector<double> xs = to_doubles(x);
  std::vector<double> df(static_cast<std::size_t>(c.filter.elements()));
  Taps(c).visit([&](std::size_t o, std::size_t i, std::size_t f) { df[f] += dy[o] * xs[i]; });
  return df;
}

/// One rounding on store, and what sums of that many terms in [-1, 1] may lose.
inline double tolerance(DType stored, double terms) {
  const double sums = stored == float64 ? rounding_unit(float64) : rounding_unit(float32);
  return rounding_unit(stored) + sums * (terms + 2);
}

inline std::vector<Tensor> operands(const Case& c, DType dtype) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(c.x, dtype, 1));
  inputs.push_back(random_tensor(c.filter, dtype, 2));
  return inputs;
}

inline std::vector<Tensor> one(Tensor tensor) {
  std::vector<Tensor> tensors;
  tensors.push_back(std::move(tensor));
  return tensors;
}

inline GraphFunction conv2d(const Conv2DOptions& options) {
  return [options](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::conv2d(x[0], x[1], options)};
  };
}

/// All outputs of an op of the family with given attributes, as passes write it.
inline GraphFunction node(const char* op, const Conv2DAttributes& attributes) {
  return [op, attributes](const std::vector<SymbolicTensor>& x) {
    return ir::emit_all(op, x, attributes);
  };
}

/// What ops::conv2d makes of the options.
inline Conv2DAttributes attributes_of(const Case& c) {
  Conv2DAttributes attributes;
  attributes.strides = c.options.strides;
  attributes.dilation_rate = c.options.dilation_rate;
  attributes.groups = c.options.groups;
  attributes.padding =
      ops::resolve_padding(c.options.padding, {c.x[1], c.x[2]}, {c.filter[0], c.filter[1]},
                           c.options.strides, c.options.dilation_rate);
  return attributes;
}

}  // namespace demi::testing::conv
