#include <demi/ops/conv2d.h>

#include <string>

#include <gtest/gtest.h>

#include <demi/ops/pooling.h>

#include "src/ir/emit.h"
#include "tests/ops/conv2d/conv2d_cases.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using namespace demi::testing;        // NOLINT(google-build-using-namespace)
using namespace demi::testing::conv;  // NOLINT(google-build-using-namespace)
using ops::Activation;
using ops::Pool2DAttributes;

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
  for (const std::string& device : test_devices()) {
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
        const auto fused = run(node("conv2d", attributes), inputs, {.device = device});
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
        expect_close(fused[0], to_doubles(run(unfused, inputs, {.device = device})[0]), 2 * near,
                     1.0, c.x.to_string() + " against unfused");
      }
    }
  }
}

TEST(Conv2D, PooledBackwardOpsAreTheDenseOnesOfTheScatteredGradient) {
  for (const std::string& device : test_devices()) {
    for (const DType dtype : kFloatingTypes) {
      for (const PooledCase& p : pooled_cases()) {
        const Case& c = p.convolution;
        Conv2DAttributes attributes = attributes_of(c);
        attributes.has_pool = true;
        attributes.pool = p.pool;
        std::vector<Tensor> inputs = operands(c, dtype);
        const Tensor index =
            std::move(run(node("conv2d", attributes), inputs, {.device = device})[1]);
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
          return std::move(run(node(op, attributes), arguments, {.device = device})[0]);
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

TEST(Conv2D, TheCpuTakesConvolutionsOfOnePixelForProducts) {
  const auto select = [](const char* op, const Conv2DAttributes& attributes, const Shape& filter) {
    const Attributes held = attributes;
    const TensorType x{{2, 8, 8, filter[2]}, float16};
    const TensorType y{{2, 8, 8, filter[3]}, float16};
    const bool forward = std::string(op) == "conv2d";
    const TensorType inputs[] = {forward ? x : y, {filter, float16}};
    return make_cpu_backend(1)->select({op, held, inputs, {forward ? &y : &x, 1}});
  };
  for (const char* op : {"conv2d", "conv2d_backward_input"}) {
    EXPECT_EQ(select(op, {.result_size = {8, 8}}, {1, 1, 4, 8}).kernel->name(), "gemm");
    const KernelSelection large =
        select(op, {.padding = {1, 1, 1, 1}, .result_size = {8, 8}}, {3, 3, 4, 8});
    EXPECT_EQ(large.kernel->name(), "direct");
    ASSERT_EQ(large.refusals.size(), 1u);
    EXPECT_EQ(large.refusals[0].reason, "not 1 x 1 without strides, padding and groups");
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

}  // namespace
}  // namespace demi
