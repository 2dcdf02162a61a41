#include <demi/ops/conv2d.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <demi/ops/pooling.h>

#include "src/ir/emit.h"
#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using ops::Activation;
using ops::Conv2DAttributes;
using ops::Conv2DOptions;
using ops::PaddingMode;
using ops::Pool2DAttributes;
using testing::expect_close;
using testing::expect_gradients;
using testing::expect_identical;
using testing::GraphFunction;
using testing::message_of;
using testing::random_tensor;
using testing::rounding_unit;
using testing::to_doubles;

constexpr DType kFloatingTypes[] = {float32, float64, float16, bfloat16};

struct Case {
  Shape x;
  Shape filter;
  Conv2DOptions options;
};

/// Plain; one channel to many; asymmetric same padding (stride 2, even filter); dilation; groups
/// and depthwise; one pixel; an empty batch; many pixels.
std::vector<Case> cases() {
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

std::vector<double> forward(const Case& c, const Tensor& x, const Tensor& filter,
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

std::vector<double> input_gradient(const Case& c, const std::vector<double>& dy,
                                   const Tensor& filter) {
  const std::vector<double> fs = to_doubles(filter);
  std::vector<double> dx(static_cast<std::size_t>(c.x.elements()));
  Taps(c).visit([&](std::size_t o, std::size_t i, std::size_t f) { dx[i] += dy[o] * fs[f]; });
  return dx;
}

std::vector<double> filter_gradient(const Case& c, const std::vector<double>& dy, const Tensor& x) {
  const std::vector<double> xs = to_doubles(x);
  std::vector<double> df(static_cast<std::size_t>(c.filter.elements()));
  Taps(c).visit([&](std::size_t o, std::size_t i, std::size_t f) { df[f] += dy[o] * xs[i]; });
  return df;
}

/// One rounding on store, and what sums of that many terms in [-1, 1] may lose.
double tolerance(DType stored, double terms) {
  const double sums = stored == float64 ? rounding_unit(float64) : rounding_unit(float32);
  return rounding_unit(stored) + sums * (terms + 2);
}

std::vector<Tensor> operands(const Case& c, DType dtype) {
  std::vector<Tensor> inputs;
  inputs.push_back(random_tensor(c.x, dtype, 1));
  inputs.push_back(random_tensor(c.filter, dtype, 2));
  return inputs;
}

std::vector<Tensor> one(Tensor tensor) {
  std::vector<Tensor> tensors;
  tensors.push_back(std::move(tensor));
  return tensors;
}

GraphFunction conv2d(const Conv2DOptions& options) {
  return [options](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::conv2d(x[0], x[1], options)};
  };
}

/// All outputs of an op of the family with given attributes, as passes write it.
GraphFunction node(const char* op, const Conv2DAttributes& attributes) {
  return [op, attributes](const std::vector<SymbolicTensor>& x) {
    return ir::emit_all(op, x, attributes);
  };
}

/// What ops::conv2d makes of the options.
Conv2DAttributes attributes_of(const Case& c) {
  Conv2DAttributes attributes;
  attributes.strides = c.options.strides;
  attributes.dilation_rate = c.options.dilation_rate;
  attributes.groups = c.options.groups;
  attributes.padding =
      ops::resolve_padding(c.options.padding, {c.x[1], c.x[2]}, {c.filter[0], c.filter[1]},
                           c.options.strides, c.options.dilation_rate);
  return attributes;
}

TEST(Conv2D, IsThePlainLoopInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> inputs = operands(c, dtype);
        const Tensor y = std::move(testing::run(conv2d(c.options), inputs, {.device = device})[0]);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), Taps(c).y());
        expect_close(y, forward(c, inputs[0], inputs[1]), tolerance(dtype, Taps(c).terms()), 1.0,
                     std::string(to_string(dtype)) + c.x.to_string() + c.filter.to_string());
      }
    }
  }
}

TEST(Conv2D, BackwardIsThePlainLoopInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> inputs = operands(c, dtype);
        const std::vector<Tensor> dy = one(random_tensor(Taps(c).y(), dtype, 3));
        const auto gradients =
            testing::gradients(conv2d(c.options), inputs, dy, {.device = device});
        const std::string what = std::string(to_string(dtype)) + c.x.to_string();
        const std::vector<double> dys = to_doubles(dy[0]);
        const double near = tolerance(dtype, Taps(c).terms());
        EXPECT_EQ(gradients[0].dtype(), dtype);
        EXPECT_EQ(gradients[1].dtype(), dtype);
        expect_close(gradients[0], input_gradient(c, dys, inputs[1]), near, 1.0, what + " dx");
        expect_close(gradients[1], filter_gradient(c, dys, inputs[0]), near, 1.0, what + " dw");
      }
    }
  }
}

TEST(Conv2D, GradientsAgreeWithFiniteDifferences) {
  for (const Case& c : {Case{{2, 4, 5, 2}, {3, 2, 2, 3}, {}},
                        Case{{1, 5, 4, 4},
                             {2, 3, 2, 2},
                             {.strides = {2, 1}, .padding = PaddingMode::kSame, .groups = 2}}}) {
    expect_gradients(conv2d(c.options), operands(c, float64));
  }
}

/// cuDNN has no engine that stores float32 sums of float16 products: there it is rounded once.
TEST(Conv2D, AFloat32WeightGradientIsNotRoundedToFloat16OnTheWayOnACpu) {
  const Case c{{4, 6, 6, 3}, {3, 3, 3, 8}, {}};
  std::vector<Tensor> inputs = one(random_tensor(c.x, float16, 4));
  inputs.push_back(random_tensor(c.filter, float32, 5));
  const std::vector<Tensor> dy = one(random_tensor(Taps(c).y(), float16, 6));
  for (const std::string& device : testing::test_devices()) {
    const auto gradients =
        testing::gradients(conv2d(c.options), inputs, dy,
                           {.device = device, .compute_dtype = float16, .simplify = true});
    EXPECT_EQ(gradients[1].dtype(), float32);
    const DType rounded = device == "cpu" ? float32 : float16;
    expect_close(gradients[1], filter_gradient(c, to_doubles(dy[0]), inputs[0]),
                 tolerance(rounded, Taps(c).terms()), 1.0, device);
  }
}

TEST(Conv2D, FusedBiasAndReluRoundOnce) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        Conv2DAttributes attributes = attributes_of(c);
        attributes.has_bias = true;
        attributes.activation = Activation::kRelu;
        std::vector<Tensor> inputs = operands(c, dtype);
        inputs.push_back(random_tensor({c.filter[3]}, dtype, 7));
        const GraphFunction fused = node("conv2d", attributes);
        const Tensor y = std::move(testing::run(fused, inputs, {.device = device})[0]);
        expect_close(y, forward(c, inputs[0], inputs[1], &inputs[2], true),
                     tolerance(dtype, Taps(c).terms()), 1.0, c.x.to_string());
      }
    }
  }
}

TEST(Conv2D, FusesABiasWithoutReluAndReluWithoutABias) {
  const Case c{{2, 7, 6, 3}, {3, 3, 3, 5}, {.padding = PaddingMode::kSame}};
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      std::vector<Tensor> inputs = operands(c, dtype);
      const double near = tolerance(dtype, Taps(c).terms());
      Conv2DAttributes relu = attributes_of(c);
      relu.activation = Activation::kRelu;
      expect_close(testing::run(node("conv2d", relu), inputs, {.device = device})[0],
                   forward(c, inputs[0], inputs[1], nullptr, true), near, 1.0, "relu");
      Conv2DAttributes bias = attributes_of(c);
      bias.has_bias = true;
      inputs.push_back(random_tensor({c.filter[3]}, dtype, 7));
      expect_close(testing::run(node("conv2d", bias), inputs, {.device = device})[0],
                   forward(c, inputs[0], inputs[1], &inputs[2]), near, 1.0, "bias");
    }
  }
}

/// A convolution and the pooling of its output.
struct PooledCase {
  Case convolution;
  Pool2DAttributes pool;
};

std::vector<PooledCase> pooled_cases() {
  const Pool2DAttributes overlapping{.pool_size = {3, 2}, .strides = {2, 1}};
  const Pool2DAttributes padded{
      .pool_size = {2, 2}, .strides = {2, 2}, .padding = {.bottom = 1, .right = 1}};
  return {
      {{{2, 8, 8, 3}, {3, 3, 3, 5}, {}}, {}},
      {{{2, 9, 8, 1}, {3, 3, 1, 32}, {.padding = PaddingMode::kSame}}, {}},
      {{{1, 9, 9, 4}, {3, 3, 4, 9}, {}}, overlapping},
      {{{2, 7, 7, 3}, {3, 3, 3, 8}, {}}, padded},
      {{{2, 9, 9, 4}, {3, 3, 2, 6}, {.strides = {2, 2}, .groups = 2}}, {}},
      {{{0, 8, 8, 3}, {3, 3, 3, 5}, {}}, {}},
  };
}

Shape pooled_shape(const PooledCase& p) {
  const Shape y = Taps(p.convolution).y();
  return {y[0],
          ops::window_positions(y[1], p.pool.padding.top, p.pool.padding.bottom,
                                p.pool.pool_size[0], p.pool.strides[0]),
          ops::window_positions(y[2], p.pool.padding.left, p.pool.padding.right,
                                p.pool.pool_size[1], p.pool.strides[1]),
          y[3]};
}

/// Where in the unpooled image the places `index` of each window are.
std::vector<std::size_t> unpooled_places(const PooledCase& p, const Tensor& index) {
  const Shape y = Taps(p.convolution).y(), pooled = pooled_shape(p);
  std::vector<std::size_t> places;
  for (std::int64_t o = 0; o < pooled.elements(); ++o) {
    const std::int64_t c = o % pooled[3], ox = o / pooled[3] % pooled[2];
    const std::int64_t oy = o / pooled[3] / pooled[2] % pooled[1];
    const std::int64_t n = o / pooled[3] / pooled[2] / pooled[1];
    const auto place = static_cast<std::int64_t>(index.at(o));
    const std::int64_t i =
        oy * p.pool.strides[0] - p.pool.padding.top + place / p.pool.pool_size[1];
    const std::int64_t j =
        ox * p.pool.strides[1] - p.pool.padding.left + place % p.pool.pool_size[1];
    places.push_back(static_cast<std::size_t>(((n * y[1] + i) * y[2] + j) * y[3] + c));
  }
  return places;
}

TEST(Conv2D, FusedPoolingKeepsTheMaximaAndTheirPlaces) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const PooledCase& p : pooled_cases()) {
        const Case& c = p.convolution;
        Conv2DAttributes attributes = attributes_of(c);
        attributes.has_bias = true;
        attributes.activation = Activation::kRelu;
        attributes.has_pool = true;
        attributes.pool = p.pool;
        std::vector<Tensor> inputs = operands(c, dtype);
        inputs.push_back(random_tensor({c.filter[3]}, dtype, 8));
        const auto fused = testing::run(node("conv2d", attributes), inputs, {.device = device});
        ASSERT_EQ(fused[0].shape(), pooled_shape(p));
        EXPECT_EQ(fused[0].dtype(), dtype);
        EXPECT_EQ(fused[1].dtype(), uint8);
        const double near = tolerance(dtype, Taps(c).terms());
        const std::vector<double> image = forward(c, inputs[0], inputs[1], &inputs[2], true);
        // The value at the place given is the value given, and no other in the window is larger.
        std::vector<double> chosen;
        for (const std::size_t place : unpooled_places(p, fused[1])) chosen.push_back(image[place]);
        expect_close(fused[0], chosen, near, 1.0, c.x.to_string() + " at index");
        attributes.has_pool = false;
        const Pool2DAttributes pool = p.pool;
        const GraphFunction unfused = [&](const std::vector<SymbolicTensor>& x) {
          return ir::emit_all("max_pool2d", {ir::emit("conv2d", x, attributes)}, pool);
        };
        expect_close(fused[0], to_doubles(testing::run(unfused, inputs, {.device = device})[0]),
                     2 * near, 1.0, c.x.to_string() + " against unfused");
      }
    }
  }
}

TEST(Conv2D, PooledBackwardOpsAreTheDenseOnesOfTheScatteredGradient) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const PooledCase& p : pooled_cases()) {
        const Case& c = p.convolution;
        Conv2DAttributes attributes = attributes_of(c);
        attributes.has_pool = true;
        attributes.pool = p.pool;
        std::vector<Tensor> inputs = operands(c, dtype);
        const Tensor index =
            std::move(testing::run(node("conv2d", attributes), inputs, {.device = device})[1]);
        const Tensor dy = random_tensor(pooled_shape(p), dtype, 9);
        std::vector<double> scattered(static_cast<std::size_t>(Taps(c).y().elements()));
        const std::vector<std::size_t> places = unpooled_places(p, index);
        for (std::size_t o = 0; o < places.size(); ++o) {
          scattered[places[o]] += dy.at(static_cast<std::int64_t>(o));
        }
        const auto run_pooled = [&](const char* op, const Tensor& other,
                                    std::array<std::int64_t, 2> result_size) {
          attributes.result_size = result_size;
          std::vector<Tensor> arguments = one(other.clone());
          arguments.push_back(dy.clone());
          arguments.push_back(index.clone());
          return std::move(testing::run(node(op, attributes), arguments, {.device = device})[0]);
        };
        // A second rounding where the scattered gradient is stored between overlapping windows.
        const double near = tolerance(dtype, Taps(c).terms()) + 4 * rounding_unit(dtype);
        expect_close(run_pooled("conv2d_backward_input_pooled", inputs[1], {c.x[1], c.x[2]}),
                     input_gradient(c, scattered, inputs[1]), near, 1.0, c.x.to_string() + " dx");
        expect_close(
            run_pooled("conv2d_backward_filter_pooled", inputs[0], {c.filter[0], c.filter[1]}),
            filter_gradient(c, scattered, inputs[0]), near, 1.0, c.x.to_string() + " dw");
      }
    }
  }
}

TEST(Conv2D, TheCpuSkipsTheZerosOfAPooledGradientWhereItCan) {
  const auto select = [](Conv2DAttributes attributes, const Shape& dy) {
    attributes.has_pool = true;
    attributes.result_size = {8, 8};
    const Attributes held = attributes;
    const TensorType inputs[] = {{{3, 3, 4, 8}, float16}, {dy, float16}, {dy, uint8}};
    const TensorType dx{{2, 8, 8, 4}, float16};
    return make_cpu_backend(1)->select({"conv2d_backward_input_pooled", held, inputs, {&dx, 1}});
  };
  EXPECT_EQ(select({}, {2, 3, 3, 8}).kernel->name(), "sparse");
  const KernelSelection strided = select({.strides = {2, 2}}, {2, 1, 1, 8});
  EXPECT_EQ(strided.kernel->name(), "scatter_then_direct");
  ASSERT_EQ(strided.refusals.size(), 1u);
  EXPECT_EQ(strided.refusals[0].reason,
            "strides, dilation, groups, overlapping windows or a large image");
}

TEST(Conv2D, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Case c{{9, 14, 14, 7}, {3, 3, 7, 20}, {.padding = PaddingMode::kSame}};
  for (const DType dtype : {float32, float16}) {
    const std::vector<Tensor> inputs = operands(c, dtype);
    const std::vector<Tensor> dy = one(random_tensor(Taps(c).y(), dtype, 10));
    const auto y = testing::run(conv2d(c.options), inputs, {.threads = 1});
    const auto dx = testing::gradients(conv2d(c.options), inputs, dy, {.threads = 1});
    for (const int threads : {2, 4}) {
      expect_identical(testing::run(conv2d(c.options), inputs, {.threads = threads})[0], y[0]);
      const auto other = testing::gradients(conv2d(c.options), inputs, dy, {.threads = threads});
      expect_identical(other[0], dx[0]);
      expect_identical(other[1], dx[1]);
    }
  }
}

SymbolicTensor input(const std::shared_ptr<ir::Graph>& graph, DType dtype, const Shape& shape) {
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

TEST(Conv2D, KeepsAnUnknownBatchAndPrintsItsGeometry) {
  const auto graph = ir::Graph::create();
  const SymbolicTensor x = input(graph, float16, {Shape::kUnknown, 28, 27, 4});
  const SymbolicTensor y = ops::conv2d(x, input(graph, float16, {2, 2, 2, 32}),
                                       {.padding = PaddingMode::kSame, .groups = 2});
  EXPECT_EQ(y.shape(), (Shape{Shape::kUnknown, 28, 27, 32}));
  EXPECT_EQ(ir::producer(y).attributes.to_string(),
            "strides=[1, 1], padding=[0, 1, 0, 1], groups=2");
}

TEST(Conv2D, SaysWhatDoesNotFit) {
  using std::invalid_argument;
  const auto graph = ir::Graph::create();
  const SymbolicTensor x = input(graph, float32, {2, 5, 5, 3});
  const SymbolicTensor filter = input(graph, float32, {3, 3, 3, 4});
  const auto message = [&](const SymbolicTensor& a, const SymbolicTensor& b,
                           const Conv2DOptions& options = {}) {
    return message_of<invalid_argument>([&] { (void)ops::conv2d(a, b, options); });
  };
  EXPECT_EQ(message(input(graph, float32, {32, 784}), filter),
            "[conv2d] expected a 4-D floating input [N, H, W, C]. Received: float32[32, 784].");
  EXPECT_EQ(message(input(graph, uint8, {2, 5, 5, 3}), filter),
            "[conv2d] expected a 4-D floating input [N, H, W, C]. Received: uint8[2, 5, 5, 3].");
  EXPECT_EQ(message(x, input(graph, float32, {3, 3})),
            "[conv2d] expected a 4-D floating filter [KH, KW, C / groups, filters]. Received: "
            "float32[3, 3].");
  EXPECT_EQ(message(x, input(graph, float32, {3, 3, 2, 4})),
            "[conv2d] expected a filter [KH, KW, C / groups, filters] whose channels are those of "
            "the input, and groups that divide both (groups=1). Received: float32[2, 5, 5, 3] and "
            "float32[3, 3, 2, 4].");
  EXPECT_EQ(message(x, filter, {.groups = 2}).substr(0, 21), "[conv2d] expected a f");
  EXPECT_EQ(message(x, input(graph, float32, {6, 3, 3, 4})),
            "[conv2d] expected a filter that is not empty and fits the image (padding=valid, "
            "dilation_rate=[1, 1]). Received: float32[2, 5, 5, 3] and float32[6, 3, 3, 4].");
  EXPECT_EQ(message(x, filter, {.strides = {2, 1}, .dilation_rate = {1, 2}}),
            "[conv2d] expected strides or dilation_rate of 1. Received: strides [2, 1] and "
            "dilation_rate [1, 2].");
  EXPECT_EQ(message(x, filter, {.strides = {0, 1}}),
            "[conv2d] expected strides, dilation_rate and groups of at least 1. Received: strides "
            "[0, 1], dilation_rate [1, 1], groups 1.");
  EXPECT_EQ(message(input(graph, float32, {1, Shape::kUnknown, 5, 3}), filter),
            "[conv2d] expected an image of known height, width and channels. Received: "
            "float32[1, None, 5, 3].");
}

}  // namespace
}  // namespace demi
