#include <demi/ops/pooling.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include <demi/ops/unary.h>

#include "src/ir/emit.h"
#include "src/ir/graph.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using ops::PaddingMode;
using ops::Pool2DAttributes;
using ops::Pool2DOptions;
using testing::expect_close;
using testing::expect_gradients;
using testing::expect_identical;
using testing::GraphFunction;
using testing::message_of;
using testing::random_tensor;
using testing::rounding_unit;
using testing::to_doubles;

constexpr DType kFloatingTypes[] = {float32, float64, float16, bfloat16};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  Shape x;
  Pool2DOptions options;
};

/// Windows that tile, overlap, leave gaps, hang over at the bottom and right; one pixel; many,
/// few and odd channels.
std::vector<Case> cases() {
  return {
      {{2, 6, 8, 8}, {}},
      {{3, 7, 5, 3}, {}},
      {{1, 1, 1, 5}, {.pool_size = {1, 1}}},
      {{2, 5, 4, 1}, {.pool_size = {2, 2}, .strides = {1, 1}, .padding = PaddingMode::kSame}},
      {{2, 8, 7, 35}, {.pool_size = {3, 2}, .strides = {2, 1}, .padding = PaddingMode::kSame}},
      {{1, 9, 9, 17}, {.pool_size = {2, 3}, .strides = {4, 4}}},
      {{2, 6, 6, 4}, {.pool_size = {4, 4}, .strides = {3, 3}, .padding = PaddingMode::kSame}},
      {{0, 4, 4, 3}, {}},
  };
}

std::vector<Tensor> one(Tensor tensor) {
  std::vector<Tensor> tensors;
  tensors.push_back(std::move(tensor));
  return tensors;
}

/// The windows of a pooling, by the definition of its options.
struct Windows {
  explicit Windows(const Case& c) : x(c.x), size(c.options.pool_size), stride(c.options.strides) {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t extent = x[static_cast<int>(i) + 1];
      if (stride[i] == 0) stride[i] = size[i];
      if (c.options.padding == PaddingMode::kSame) {
        out[i] = (extent + stride[i] - 1) / stride[i];
        before[i] = std::max<std::int64_t>((out[i] - 1) * stride[i] + size[i] - extent, 0) / 2;
      } else {
        out[i] = (extent - size[i]) / stride[i] + 1;
      }
    }
  }

  [[nodiscard]] Shape pooled() const { return {x[0], out[0], out[1], x[3]}; }

  /// Calls body(output, input, place) for every element of every window inside the image; both are
  /// flat indices.
  template <class Body>
  void visit(Body&& body) const {
    for (std::int64_t o = 0; o < pooled().elements(); ++o) {
      const std::int64_t c = o % x[3], ox = o / x[3] % out[1], oy = o / x[3] / out[1] % out[0];
      const std::int64_t n = o / x[3] / out[1] / out[0];
      for (std::int64_t place = 0; place < size[0] * size[1]; ++place) {
        const std::int64_t i = oy * stride[0] - before[0] + place / size[1];
        const std::int64_t j = ox * stride[1] - before[1] + place % size[1];
        if (i < 0 || j < 0 || i >= x[1] || j >= x[2]) continue;
        body(static_cast<std::size_t>(o),
             static_cast<std::size_t>(((n * x[1] + i) * x[2] + j) * x[3] + c), place);
      }
    }
  }

  Shape x;
  std::array<std::int64_t, 2> size, stride, out{}, before{};
};

struct MaxReference {
  std::vector<double> y;
  std::vector<double> place;
  std::vector<std::size_t> from;
};

MaxReference max_reference(const Case& c, const std::vector<double>& x) {
  const Windows windows(c);
  const auto count = static_cast<std::size_t>(windows.pooled().elements());
  MaxReference result{std::vector<double>(count), std::vector<double>(count, -1),
                      std::vector<std::size_t>(count)};
  windows.visit([&](std::size_t o, std::size_t i, std::int64_t place) {
    const bool first = result.place[o] < 0;
    const bool better = std::isnan(x[i]) ? !std::isnan(result.y[o]) : x[i] > result.y[o];
    if (!first && !better) return;
    result.y[o] = x[i];
    result.place[o] = static_cast<double>(place);
    result.from[o] = i;
  });
  return result;
}

std::vector<double> average_reference(const Case& c, const std::vector<double>& x) {
  const Windows windows(c);
  const auto count = static_cast<std::size_t>(windows.pooled().elements());
  std::vector<double> sum(count), elements(count);
  windows.visit([&](std::size_t o, std::size_t i, std::int64_t) {
    sum[o] += x[i];
    elements[o] += 1;
  });
  for (std::size_t o = 0; o < count; ++o) sum[o] /= elements[o];
  return sum;
}

GraphFunction max_pool(const Pool2DOptions& options) {
  return [options](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    const auto [y, index] = ops::max_pool2d(x[0], options);
    return {y, index};
  };
}

GraphFunction average_pool(const Pool2DOptions& options) {
  return [options](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::average_pool2d(x[0], options)};
  };
}

TEST(MaxPool2D, GivesMaximumAndPlaceInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> inputs = one(random_tensor(c.x, dtype, 1));
        const auto results = testing::run(max_pool(c.options), inputs, {.device = device});
        const MaxReference expected = max_reference(c, to_doubles(inputs[0]));
        EXPECT_EQ(results[0].shape(), Windows(c).pooled());
        EXPECT_EQ(results[0].dtype(), dtype);
        expect_close(results[0], expected.y, 0, 1, c.x.to_string());
        expect_close(results[1], expected.place, 0, 1, c.x.to_string() + " index");
      }
    }
  }
}

TEST(MaxPool2D, GivesTheMaximumAloneInEveryDtype) {
  const auto maximum = [](const Pool2DOptions& options) -> GraphFunction {
    return [options](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
      return {ops::max_pool2d(x[0], options).first};
    };
  };
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> inputs = one(random_tensor(c.x, dtype, 1));
        // Fused, it may be a pooling without an index.
        const auto y = testing::run(maximum(c.options), inputs, {.device = device, .fuse = true});
        expect_close(y[0], max_reference(c, to_doubles(inputs[0])).y, 0, 1, c.x.to_string());
      }
    }
  }
}

/// dx of a case on a device, with and without fusing: a fused graph may find the maxima anew.
void expect_gradient_at_the_maximum(const Case& c, DType dtype, const std::string& device) {
  const std::vector<Tensor> inputs = one(random_tensor(c.x, dtype, 2));
  const std::vector<Tensor> dy = one(random_tensor(Windows(c).pooled(), dtype, 3));
  const MaxReference forward = max_reference(c, to_doubles(inputs[0]));
  std::vector<double> expected(static_cast<std::size_t>(c.x.elements()), 0.0);
  const std::vector<double> dys = to_doubles(dy[0]);
  for (std::size_t o = 0; o < dys.size(); ++o) expected[forward.from[o]] += dys[o];
  for (const bool fuse : {false, true}) {
    const auto dx =
        testing::gradients(max_pool(c.options), inputs, dy, {.device = device, .fuse = fuse});
    EXPECT_EQ(dx[0].dtype(), dtype);
    expect_close(dx[0], expected, 2 * rounding_unit(dtype), 1.0, c.x.to_string());
  }
}

TEST(MaxPool2D, SendsTheGradientToTheMaximumInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) expect_gradient_at_the_maximum(c, dtype, device);
    }
  }
}

TEST(MaxPool2D, GradientAgreesWithFiniteDifferences) {
  for (const Case& c :
       {Case{{2, 4, 5, 3}, {}},
        Case{{1, 5, 4, 2},
             {.pool_size = {3, 2}, .strides = {1, 2}, .padding = PaddingMode::kSame}}}) {
    expect_gradients(max_pool(c.options), one(random_tensor(c.x, float64, 4)));
  }
}

TEST(MaxPool2D, TakesTheFirstOfEqualMaximaAndTheFirstNaN) {
  const auto results = testing::run(
      max_pool({}), one(Tensor::from<float>({5, 1, 5, NAN, /**/ 5, 5, NAN, 9}, {1, 2, 4, 1})));
  EXPECT_EQ(results[0].at(0), 5);
  EXPECT_EQ(results[1].at(0), 0);
  EXPECT_TRUE(std::isnan(results[0].at(1)));
  EXPECT_EQ(results[1].at(1), 1);
}

TEST(MaxPool2D, PaddingNeverWinsOverMinusInfinity) {
  const Pool2DOptions options{
      .pool_size = {3, 3}, .strides = {1, 1}, .padding = PaddingMode::kSame};
  for (const DType dtype : kFloatingTypes) {
    const auto results =
        testing::run(max_pool(options), one(Tensor::full({1, 1, 1, 9}, -kInfinity, dtype)));
    expect_close(results[0], std::vector<double>(9, -kInfinity), 0);
    expect_close(results[1], std::vector<double>(9, 4), 0, 1, "the centre of the window");
  }
}

/// max_pool2d with relu set, as the fuse pass writes it, and its backward op.
TEST(MaxPool2D, WithReluEqualsReluOfThePooledValueAndMasksItsGradient) {
  for (const DType dtype : kFloatingTypes) {
    for (const std::int64_t channels : {3, 16}) {
      const Case c{{2, 4, 6, channels}, {}};
      Tensor x = random_tensor(c.x, dtype, 5, -1.5, 0.5);
      MaxReference expected = max_reference(c, to_doubles(x));
      const std::vector<Tensor> inputs = one(std::move(x));
      const GraphFunction function = [](const std::vector<SymbolicTensor>& v) {
        return ir::emit_all("max_pool2d", {v[0]}, Pool2DAttributes{.relu = true});
      };
      const std::vector<Tensor> dy = one(random_tensor(Windows(c).pooled(), dtype, 6));
      const std::vector<double> dys = to_doubles(dy[0]);
      std::vector<double> dx(static_cast<std::size_t>(c.x.elements()), 0.0);
      for (std::size_t o = 0; o < dys.size(); ++o) {
        if (expected.y[o] > 0) dx[expected.from[o]] += dys[o];
        expected.y[o] = std::max(expected.y[o], 0.0);
      }
      const auto results = testing::run(function, inputs);
      expect_close(results[0], expected.y, 0);
      expect_close(results[1], expected.place, 0);
      expect_close(testing::gradients(function, inputs, dy)[0], dx, 0);
    }
  }
}

TEST(MaxPool2D, FusingAReluChangesNoBit) {
  const GraphFunction function =
      [](const std::vector<SymbolicTensor>& x) -> std::vector<SymbolicTensor> {
    return {ops::max_pool2d(ops::relu(x[0])).first};
  };
  testing::RunOptions plain, fused;
  fused.fuse = true;
  for (const DType dtype : kFloatingTypes) {
    const std::vector<Tensor> inputs = one(random_tensor({2, 6, 7, 5}, dtype, 13, -1.5, 0.5));
    const std::vector<Tensor> dy = one(random_tensor({2, 3, 3, 5}, dtype, 14));
    expect_identical(testing::run(function, inputs, fused)[0],
                     testing::run(function, inputs, plain)[0]);
    expect_identical(testing::gradients(function, inputs, dy, fused)[0],
                     testing::gradients(function, inputs, dy, plain)[0]);
  }
  const std::string text = testing::printed_graph(function, {{{2, 6, 7, 5}, float16}}, fused);
  EXPECT_EQ(text.find("relu("), std::string::npos) << text;
}

TEST(AveragePool2D, LeavesPaddingOutInEveryDtype) {
  for (const std::string& device : testing::test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> inputs = one(random_tensor(c.x, dtype, 7));
        const Tensor y =
            std::move(testing::run(average_pool(c.options), inputs, {.device = device})[0]);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), Windows(c).pooled());
        expect_close(y, average_reference(c, to_doubles(inputs[0])), 4 * rounding_unit(dtype), 1.0,
                     c.x.to_string());
      }
    }
  }
}

TEST(AveragePool2D, SpreadsTheGradientInEveryDtype) {
  for (const DType dtype : kFloatingTypes) {
    for (const Case& c : cases()) {
      const std::vector<Tensor> inputs = one(random_tensor(c.x, dtype, 8));
      const std::vector<Tensor> dy = one(random_tensor(Windows(c).pooled(), dtype, 9));
      const std::vector<double> dys = to_doubles(dy[0]);
      std::vector<double> elements(dys.size()), expected(static_cast<std::size_t>(c.x.elements()));
      Windows(c).visit([&](std::size_t o, std::size_t, std::int64_t) { elements[o] += 1; });
      Windows(c).visit(
          [&](std::size_t o, std::size_t i, std::int64_t) { expected[i] += dys[o] / elements[o]; });
      const auto dx = testing::gradients(average_pool(c.options), inputs, dy);
      expect_close(dx[0], expected, 4 * rounding_unit(dtype), 1.0, c.x.to_string());
    }
  }
}

TEST(AveragePool2D, GradientAgreesWithFiniteDifferences) {
  expect_gradients(
      average_pool({.pool_size = {3, 2}, .strides = {1, 2}, .padding = PaddingMode::kSame}),
      one(random_tensor({2, 4, 5, 3}, float64, 10)));
}

TEST(AveragePool2D, SumsInFloat32) {
  const auto y = testing::run(average_pool({.pool_size = {64, 64}}),
                              one(Tensor::full({1, 64, 64, 3}, 100, float16)));
  expect_close(y[0], {100, 100, 100}, 0);
}

TEST(Pooling, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Pool2DOptions options{
      .pool_size = {3, 3}, .strides = {2, 2}, .padding = PaddingMode::kSame};
  const std::vector<Tensor> inputs = one(random_tensor({8, 30, 30, 19}, float16, 11));
  const std::vector<Tensor> dy = one(random_tensor({8, 15, 15, 19}, float16, 12));
  for (const GraphFunction& function : {max_pool(options), average_pool(options)}) {
    const auto y = testing::run(function, inputs, {.threads = 1});
    const auto dx = testing::gradients(function, inputs, dy, {.threads = 1});
    for (const int threads : {2, 4}) {
      expect_identical(testing::run(function, inputs, {.threads = threads})[0], y[0]);
      expect_identical(testing::gradients(function, inputs, dy, {.threads = threads})[0], dx[0]);
    }
  }
}

SymbolicTensor input(DType dtype, const Shape& shape) {
  const auto graph = ir::Graph::create();
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

TEST(Pooling, KeepsAnUnknownBatch) {
  const SymbolicTensor x = input(float16, {Shape::kUnknown, 28, 28, 3});
  const auto [y, index] = ops::max_pool2d(x);
  EXPECT_EQ(y.shape(), (Shape{Shape::kUnknown, 14, 14, 3}));
  EXPECT_EQ(index.dtype(), uint8);
  EXPECT_EQ(ops::average_pool2d(x).shape(), y.shape());
}

TEST(Pooling, SaysWhatDoesNotFit) {
  using std::invalid_argument;
  const SymbolicTensor x = input(float32, {2, 3, 3, 1});
  EXPECT_EQ(message_of<invalid_argument>([] {
              (void)ops::max_pool2d(input(float32, {32, 784}));
            }),
            "[max_pool2d] expected a 4-D floating input [N, H, W, C]. Received: float32[32, 784].");
  EXPECT_EQ(message_of<invalid_argument>([] {
              (void)ops::average_pool2d(input(uint8, {1, 2, 2, 1}));
            }),
            "[average_pool2d] expected a 4-D floating input [N, H, W, C]. Received: uint8[1, 2, 2, "
            "1].");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              (void)ops::max_pool2d(x, {.pool_size = {4, 2}});
            }),
            "[max_pool2d] expected a window that fits the image. Received: a window of [4, 2] on "
            "an image of [3, 3] with padding valid.");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              (void)ops::average_pool2d(x, {.pool_size = {0, 2}});
            }),
            "[average_pool2d] expected a pool size of at least 1 and strides of at least 1 (or 0 "
            "for the pool size). Received: pool_size [0, 2], strides [0, 0].");
  EXPECT_EQ(
      message_of<invalid_argument>([] {
        (void)ops::max_pool2d(input(float32, {1, 16, 16, 1}), {.pool_size = {16, 16}});
      }),
      "[max_pool2d] expected a window of at most 255 elements. Received: pool_size [16, 16].");
  EXPECT_EQ(message_of<invalid_argument>([] {
              (void)ops::max_pool2d(input(float32, {1, Shape::kUnknown, 4, 1}));
            }),
            "[max_pool2d] expected an image of known height and width. Received: [1, None, 4, 1].");
}

TEST(Padding, NamesAreKeras) {
  using std::invalid_argument;
  EXPECT_EQ(ops::parse_padding("valid", "conv2d"), PaddingMode::kValid);
  EXPECT_EQ(ops::parse_padding("SAME", "conv2d"), PaddingMode::kSame);
  EXPECT_EQ(message_of<invalid_argument>([] { (void)ops::parse_padding("sane", "conv2d"); }),
            "[conv2d] expected padding 'valid' or 'same'. Received: 'sane'. Did you mean 'same'?");
}

TEST(Padding, SamePutsTheOddPixelAtTheBottomAndRight) {
  const ops::Padding2D padding =
      ops::resolve_padding(PaddingMode::kSame, {5, 8}, {2, 3}, {1, 2}, {1, 1});
  EXPECT_EQ(padding, (ops::Padding2D{.top = 0, .bottom = 1, .left = 0, .right = 1}));
  EXPECT_EQ(ops::describe(padding), "[0, 1, 0, 1]");
  EXPECT_EQ(ops::resolve_padding(PaddingMode::kSame, {9, 9}, {3, 3}, {1, 1}, {2, 2}),
            (ops::Padding2D{2, 2, 2, 2}));
}

TEST(Padding, ATooLargeWindowHasNoPosition) {
  EXPECT_EQ(ops::window_positions(4, 0, 0, 2, 2), 2);
  EXPECT_EQ(ops::window_positions(3, 0, 0, 4, 2), 0);
  EXPECT_EQ(ops::window_positions(1, 0, 0, 4, 2), 0);
}

}  // namespace
}  // namespace demi
