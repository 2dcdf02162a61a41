#include <demi/ops/conv2d.h>

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "src/ir/emit.h"
#include "src/ir/graph.h"
#include "tests/ops/conv2d/conv2d_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;        // NOLINT(google-build-using-namespace)
using namespace demi::testing::conv;  // NOLINT(google-build-using-namespace)
using ops::Activation;

TEST(Conv2D, IsThePlainLoopInEveryDtype) {
  for (const std::string& device : test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const Case& c : cases()) {
        const std::vector<Tensor> inputs = operands(c, dtype);
        const Tensor y = std::move(run(conv2d(c.options), inputs, {.device = device})[0]);
        EXPECT_EQ(y.dtype(), dtype);
        EXPECT_EQ(y.shape(), Taps(c).y());
        expect_close(y, forward(c, inputs[0], inputs[1]), tolerance(dtype, Taps(c).terms()), 1.0,
                     std::string(to_string(dtype)) + c.x.to_string() + c.filter.to_string());
      }
    }
  }
}

TEST(Conv2D, BackwardIsThePlainLoopInEveryDtype) {
  for (const std::string& device : test_devices()) {
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

TEST(Conv2D, GivesTheSameBitsOnAnyNumberOfThreads) {
  const Case c{{9, 14, 14, 7}, {3, 3, 7, 20}, {.padding = PaddingMode::kSame}};
  for (const DType dtype : {float32, float16}) {
    const std::vector<Tensor> inputs = operands(c, dtype);
    const std::vector<Tensor> dy = one(random_tensor(Taps(c).y(), dtype, 10));
    const auto y = run(conv2d(c.options), inputs, {.threads = 1});
    const auto dx = testing::gradients(conv2d(c.options), inputs, dy, {.threads = 1});
    for (const int threads : {2, 4}) {
      expect_identical(run(conv2d(c.options), inputs, {.threads = threads})[0], y[0]);
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
