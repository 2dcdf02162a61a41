// What all layers have in common, layer by layer.
#include <gtest/gtest.h>

#include <demi/layers/activation.h>
#include <demi/layers/add.h>
#include <demi/layers/average_pooling2d.h>
#include <demi/layers/batch_normalization.h>
#include <demi/layers/concatenate.h>
#include <demi/layers/conv2d.h>
#include <demi/layers/dense.h>
#include <demi/layers/dropout.h>
#include <demi/layers/flatten.h>
#include <demi/layers/global_average_pooling2d.h>
#include <demi/layers/max_pooling2d.h>
#include <demi/layers/relu.h>
#include <demi/layers/reshape.h>
#include <demi/layers/softmax.h>

#include "tests/support/layer_harness.h"

namespace demi::testing {
namespace {

template <class L, class... Arguments>
std::function<std::shared_ptr<Layer>()> maker(Arguments... arguments) {
  return [=] { return std::make_shared<L>(arguments...); };
}

TEST(Layers, Conv2D) {
  expect_layer({.make = maker<Conv2D>(Conv2DOptions{.filters = 4, .kernel_size = 3}),
                .inputs = {{8, 9, 2}},
                .output = {6, 7, 4},
                .trainable = 2,
                .params = 3 * 3 * 2 * 4 + 4});
  expect_layer({.make = maker<Conv2D>(Conv2DOptions{.filters = 6,
                                                    .kernel_size = {3, 2},
                                                    .strides = 2,
                                                    .padding = "same",
                                                    .groups = 2,
                                                    .activation = "relu",
                                                    .use_bias = false,
                                                    .kernel_initializer = "he_normal",
                                                    .kernel_regularizer = "l2",
                                                    .activity_regularizer = "l1"}),
                .inputs = {{7, 8, 4}},
                .output = {4, 4, 6},
                .trainable = 1,
                .params = 3 * 2 * 2 * 6});
  expect_layer({.make = maker<Conv2D>(
                    Conv2DOptions{.filters = 1, .kernel_size = 3, .dilation_rate = {2, 1}}),
                .inputs = {{8, 8, 1}},
                .output = {4, 6, 1},
                .trainable = 2,
                .params = 10});
}

TEST(Layers, Dense) {
  expect_layer({.make = maker<Dense>(DenseOptions{.units = 3}),
                .inputs = {{5}},
                .output = {3},
                .trainable = 2,
                .params = 18});
  expect_layer({.make = maker<Dense>(
                    DenseOptions{.units = 3,
                                 .activation = "softmax",
                                 .use_bias = false,
                                 .kernel_initializer = initializers::RandomNormal({.seed = 3}),
                                 .kernel_regularizer = regularizers::L1L2(0.1, 0.2),
                                 .activity_regularizer = "l2"}),
                .inputs = {{4, 2, 5}},
                .output = {4, 2, 3},
                .trainable = 1,
                .params = 15});
}

TEST(Layers, MaxPooling2D) {
  expect_layer({.make = maker<MaxPooling2D>(), .inputs = {{7, 6, 3}}, .output = {3, 3, 3}});
  expect_layer({.make = maker<MaxPooling2D>(MaxPooling2DOptions{
                    .pool_size = 3, .strides = Size2D(1, 2), .padding = "same"}),
                .inputs = {{7, 7, 2}},
                .output = {7, 4, 2}});
}

TEST(Layers, AveragePooling2D) {
  expect_layer({.make = maker<AveragePooling2D>(AveragePooling2DOptions{.pool_size = {2, 3}}),
                .inputs = {{4, 6, 3}},
                .output = {2, 2, 3}});
}

TEST(Layers, GlobalAveragePooling2D) {
  expect_layer({.make = maker<GlobalAveragePooling2D>(), .inputs = {{4, 5, 3}}, .output = {3}});
  expect_layer(
      {.make = maker<GlobalAveragePooling2D>(GlobalAveragePooling2DOptions{.keepdims = true}),
       .inputs = {{4, 5, 3}},
       .output = {1, 1, 3}});
}

TEST(Layers, BatchNormalization) {
  expect_layer({.make = maker<BatchNormalization>(),
                .inputs = {{4, 5, 3}},
                .output = {4, 5, 3},
                .trainable = 2,
                .non_trainable = 2,
                .params = 12,
                .variable_dtype_of_float16 = float32});
  expect_layer({.make = maker<BatchNormalization>(BatchNormalizationOptions{
                    .momentum = 0.9, .epsilon = 1e-5, .center = false, .scale = false}),
                .inputs = {{6}},
                .output = {6},
                .non_trainable = 2,
                .params = 12,
                .variable_dtype_of_float16 = float32});
}

TEST(Layers, Activation) {
  for (const char* name : {"linear", "relu", "sigmoid", "tanh", "softmax", "log_softmax", "gelu",
                           "softplus", "exponential"}) {
    SCOPED_TRACE(name);
    expect_layer({.make = maker<Activation>(name), .inputs = {{4, 3}}, .output = {4, 3}});
  }
}

TEST(Layers, ReLU) {
  expect_layer({.make = maker<ReLU>(), .inputs = {{4, 3}}, .output = {4, 3}});
  expect_layer(
      {.make = maker<ReLU>(ReLUOptions{.max_value = 6, .negative_slope = 0.1, .threshold = 0.5}),
       .inputs = {{4, 3}},
       .output = {4, 3}});
}

TEST(Layers, Softmax) {
  expect_layer({.make = maker<Softmax>(), .inputs = {{4, 3}}, .output = {4, 3}});
  expect_layer(
      {.make = maker<Softmax>(SoftmaxOptions{.axis = 1}), .inputs = {{4, 3}}, .output = {4, 3}});
}

TEST(Layers, Dropout) {
  expect_layer({.make = maker<Dropout>(0.5), .inputs = {{4, 3}}, .output = {4, 3}});
  expect_layer({.make = maker<Dropout>(DropoutOptions{.rate = 0.1, .seed = 5}),
                .inputs = {{4, 3}},
                .output = {4, 3}});
}

TEST(Layers, Flatten) {
  expect_layer({.make = maker<Flatten>(), .inputs = {{4, 3, 2}}, .output = {24}});
  expect_layer({.make = maker<Flatten>(), .inputs = {{}}, .output = {1}});
}

TEST(Layers, Reshape) {
  expect_layer({.make = maker<Reshape>(Shape{3, -1}), .inputs = {{4, 3}}, .output = {3, 4}});
  expect_layer({.make = maker<Reshape>(Shape{12}), .inputs = {{4, 3}}, .output = {12}});
}

TEST(Layers, Add) {
  expect_layer({.make = maker<Add>(), .inputs = {{4, 3}, {4, 3}, {1, 3}}, .output = {4, 3}});
}

TEST(Layers, Concatenate) {
  expect_layer({.make = maker<Concatenate>(), .inputs = {{4, 3}, {4, 2}}, .output = {4, 5}});
  expect_layer({.make = maker<Concatenate>(ConcatenateOptions{.axis = 1}),
                .inputs = {{1, 3}, {2, 3}},
                .output = {3, 3}});
}

}  // namespace
}  // namespace demi::testing
