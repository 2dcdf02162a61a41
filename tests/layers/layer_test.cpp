// Names, seeds, errors and numbers of the built-in layers.
#include <demi/layer.h>

#include <cmath>

#include <gtest/gtest.h>

#include <demi/layers/activation.h>
#include <demi/layers/add.h>
#include <demi/layers/batch_normalization.h>
#include <demi/layers/concatenate.h>
#include <demi/layers/conv2d.h>
#include <demi/layers/dense.h>
#include <demi/layers/dropout.h>
#include <demi/layers/flatten.h>
#include <demi/layers/input.h>
#include <demi/layers/max_pooling2d.h>
#include <demi/layers/relu.h>
#include <demi/layers/reshape.h>
#include <demi/layers/softmax.h>
#include <demi/model.h>

#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi::testing {
namespace {

std::string refusal(const std::function<void()>& call) {
  return message_of<std::invalid_argument>(call);
}

Tensor row(const std::vector<float>& values) {
  return Tensor::from(values, {1, static_cast<std::int64_t>(values.size())});
}

/// The result of one layer for one input.
Tensor apply_layer(Layer&& layer, const Tensor& input) {
  const SymbolicTensor x = Input(input.shape().without_front());
  const Model model(x, layer(x));
  std::vector<Tensor> inputs;
  inputs.push_back(input.clone());
  return predict(model, inputs);
}

TEST(Layer, NamesItselfAsKerasDoes) {
  reset_layer_names();
  EXPECT_EQ(Conv2D({.filters = 1, .kernel_size = 1}).name(), "conv2d");
  EXPECT_EQ(Conv2D({.filters = 1, .kernel_size = 1}).name(), "conv2d_1");
  EXPECT_EQ(MaxPooling2D().name(), "max_pooling2d");
  EXPECT_EQ(BatchNormalization().name(), "batch_normalization");
  EXPECT_EQ(ReLU().name(), "re_lu");
  EXPECT_EQ(Dense({.units = 1, .name = "head"}).name(), "head");
  EXPECT_EQ(Dense({.units = 1}).name(), "dense");
  reset_layer_names();
  EXPECT_EQ(Conv2D({.filters = 1, .kernel_size = 1}).name(), "conv2d");
}

TEST(Layer, ReadsTheGlobalPolicyWhenConstructed) {
  const PolicyScope scope("mixed_float16");
  const Dense layer({.units = 2});
  const Dense other({.units = 2, .dtype = float64});
  set_global_policy("float32");
  EXPECT_EQ(layer.dtype_policy().name(), "mixed_float16");
  EXPECT_EQ(other.dtype_policy().name(), "float64");
}

TEST(Layer, DrawsWeightsFromSeedAndOrderOfCreation) {
  const auto kernels = [](std::uint64_t seed) {
    set_random_seed(seed);
    const SymbolicTensor x = Input({4});
    Dense first({.units = 4});
    Dense second({.units = 4});
    second(first(x));
    std::vector<double> values = to_doubles(first.variables()[0].value());
    const std::vector<double> more = to_doubles(second.variables()[0].value());
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const std::vector<double> a = kernels(1);
  EXPECT_EQ(a, kernels(1));
  EXPECT_NE(a, kernels(2));
  EXPECT_NE(std::vector<double>(a.begin(), a.begin() + 16),
            std::vector<double>(a.begin() + 16, a.end()));
  set_random_seed(0);
}

TEST(Layer, WeightsDoNotDependOnThePolicy) {
  std::vector<std::vector<double>> kernels;
  for (const char* policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
    const PolicyScope scope(policy);
    set_random_seed(5);
    Dense layer({.units = 3});
    layer(Input({3}));
    kernels.push_back(to_doubles(layer.variables()[0].value()));
  }
  EXPECT_EQ(kernels[0], kernels[1]);
  EXPECT_EQ(kernels[0], kernels[2]);
  set_random_seed(0);
}

TEST(Layer, RefusesWrongOptions) {
  reset_layer_names();
  EXPECT_EQ(refusal([] { Dense({.units = 0}); }), "[dense] expected units >= 1. Received: 0.");
  EXPECT_EQ(refusal([] { Conv2D({.filters = 3}); }),
            "[conv2d] expected kernel_size >= 1. Received: 0.");
  EXPECT_EQ(refusal([] { Conv2D({.filters = 3, .kernel_size = 1, .groups = 2, .name = "stem"}); }),
            "[Conv2D 'stem'] expected filters that groups divides. Received: 3 filters, 2 groups.");
  EXPECT_NE(refusal([] {
              Conv2D({.filters = 3, .kernel_size = 1, .padding = "samee"});
            }).find("Did you mean 'same'?"),
            std::string::npos);
  EXPECT_EQ(refusal([] { Dense({.units = 1, .activation = "rleu"}); }),
            "[activation] expected one of 'linear', 'relu', 'sigmoid', 'tanh', 'softmax', "
            "'log_softmax', 'gelu', 'softplus', 'exponential'. Received: 'rleu'. Did you mean "
            "'relu'?");
  EXPECT_THROW(Dense({.units = 1, .dtype = "float8"}), std::invalid_argument);
  EXPECT_THROW(Dense({.units = 1, .dtype = int32}), std::invalid_argument);
  EXPECT_THROW(Dense({.units = 1, .name = "a/b"}), std::invalid_argument);
  EXPECT_THROW(Dense({.units = 1, .kernel_regularizer = "l3"}), std::invalid_argument);
  EXPECT_THROW(Dropout(1.5), std::invalid_argument);
  EXPECT_THROW(BatchNormalization({.momentum = 2}), std::invalid_argument);
  EXPECT_THROW(ReLU({.negative_slope = -1}), std::invalid_argument);
  EXPECT_THROW(MaxPooling2D({.pool_size = 0}), std::invalid_argument);
  EXPECT_THROW(Reshape({-1, -1}), std::invalid_argument);
  EXPECT_THROW((void)Input({Shape::kUnknown, 3}), std::invalid_argument);
}

TEST(Layer, RefusesWrongInputs) {
  reset_layer_names();
  const SymbolicTensor flat = Input({784});
  EXPECT_EQ(refusal([&] { Conv2D({.filters = 1, .kernel_size = 3})(flat); }),
            "[conv2d] expected a 4-D input [N, H, W, C]. Received: [None, 784].");
  EXPECT_EQ(refusal([&] { MaxPooling2D()(flat); }),
            "[max_pooling2d] expected a 4-D input [N, H, W, C]. Received: [None, 784].");
  EXPECT_EQ(refusal([&] {
              Reshape({5, -1})(flat);
            }),
            "[reshape] expected an input whose samples have the elements of [5, None]. Received: "
            "[None, 784].");
  EXPECT_EQ(refusal([&] { Add()(flat); }), "[add] expected at least two inputs. Received: 1.");
  EXPECT_EQ(refusal([&] {
              Dense({.units = 1})({flat, flat});
            }),
            "[dense] expected one input. Received: 2.");
  EXPECT_EQ(
      refusal([&] { Dense({.units = 1})(SymbolicTensor()); }),
      "[dense_1] expected values made by demi::Input, layers or demi::ops. Received: an empty "
      "SymbolicTensor.");
  Dense shared({.units = 1});
  shared(flat);
  EXPECT_EQ(refusal([&] { shared(Input({10})); }),
            "[dense_2] expected an input [N, ..., 784]. Received: [None, 10].");
  Dense copied({.units = 1});
  Dense copy = copied;
  copied(flat);
  EXPECT_EQ(
      refusal([&] { copy(Input({10})); }),
      "[dense_3] expected inputs for which 'kernel' is [784, 1], as when it was first called. "
      "Received: inputs for which it is [10, 1].");
}

TEST(Layer, SaysInWhichLayerAnOpFailed) {
  reset_layer_names();
  const SymbolicTensor image = Input({4, 4, 3});
  const std::string message =
      refusal([&] { Conv2D({.filters = 1, .kernel_size = 5, .name = "stem"})(image); });
  EXPECT_TRUE(message.starts_with("[conv2d] ")) << message;
  EXPECT_TRUE(message.ends_with(" In layer 'stem'.")) << message;
  const std::string broadcast = refusal([&] { Add({.name = "join"})({image, Input({4, 4, 2})}); });
  EXPECT_TRUE(broadcast.ends_with(" In layer 'join'.")) << broadcast;
}

TEST(Dense, MultipliesTheLastAxis) {
  const Tensor input = random_tensor({2, 3, 4}, float32, 1);
  const SymbolicTensor x = Input({3, 4});
  Dense layer({.units = 5, .bias_initializer = "random_normal"});
  const Model model(x, layer(x));
  std::vector<Tensor> inputs;
  inputs.push_back(input.clone());
  const Tensor result = predict(model, inputs);
  ASSERT_EQ(result.shape(), (Shape{2, 3, 5}));
  const Tensor kernel = layer.variables()[0].value();
  const Tensor bias = layer.variables()[1].value();
  std::vector<double> expected;
  for (int r = 0; r < 6; ++r) {
    for (int u = 0; u < 5; ++u) {
      double sum = bias.at(u);
      for (int k = 0; k < 4; ++k) sum += input.at(r * 4 + k) * kernel.at(k * 5 + u);
      expected.push_back(sum);
    }
  }
  expect_close(result, expected, 1e-6);
}

TEST(ReLU, FollowsItsOptions) {
  const Tensor x = row({-3, -0.5, 0.25, 0.5, 2, 9});
  const auto result = [&](const ReLUOptions& options) { return apply_layer(ReLU(options), x); };
  expect_close(result({}), {0, 0, 0.25, 0.5, 2, 9}, 0);
  expect_close(result({.max_value = 1}), {0, 0, 0.25, 0.5, 1, 1}, 0);
  expect_close(result({.negative_slope = 0.5}), {-1.5, -0.25, 0.25, 0.5, 2, 9}, 1e-7);
  expect_close(result({.threshold = 0.5}), {0, 0, 0, 0.5, 2, 9}, 0);
  expect_close(result({.max_value = 6, .negative_slope = 0.5, .threshold = 0.5}),
               {-1.75, -0.5, -0.125, 0.5, 2, 6}, 1e-7);
  expect_close(apply_layer(ReLU({.threshold = 1}), row({-INFINITY, INFINITY})), {0, INFINITY}, 0);
}

TEST(BatchNormalization, UsesMovingStatisticsOutsideOfTraining) {
  BatchNormalization layer({.epsilon = 0});
  const SymbolicTensor x = Input({2});
  const Model model(x, layer(x));
  ASSERT_EQ(layer.variables().size(), 4u);
  const char* names[] = {"gamma", "beta", "moving_mean", "moving_variance"};
  const std::vector<std::vector<float>> values = {{2, 3}, {1, -1}, {4, 5}, {4, 16}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(layer.variables()[i].name(), layer.name() + "/" + names[i]);
    layer.variables()[i].assign(Tensor::from(values[i], {2}));
  }
  std::vector<Tensor> inputs;
  inputs.push_back(row({6, 1}));
  expect_close(predict(model, inputs), {2 * (6 - 4) / 2.0 + 1, 3 * (1 - 5) / 4.0 - 1}, 1e-6);
}

TEST(BatchNormalization, UpdatesMovingStatisticsOnlyInTraining) {
  BatchNormalization layer;
  const SymbolicTensor x = Input({2});
  const Model model(x, layer(x));
  const auto updates = [&](std::int64_t batch, bool training) {
    const TracedGraph traced = trace_for(model, batch, training);
    int count = 0;
    for (const ir::NodeId id : traced.graph->order()) {
      count += traced.graph->node(id).op->name == "moving_average" ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(updates(4, true), 2);
  EXPECT_EQ(updates(4, false), 0);
  EXPECT_EQ(updates(0, true), 0);
  layer.set_trainable(false);
  EXPECT_EQ(updates(4, true), 0);
}

TEST(Dropout, IsIdentityOutsideOfTraining) {
  const Tensor x = row({1, 2, 3});
  expect_identical(apply_layer(Dropout(0.9), x), x);
}

TEST(Dropout, DrawsOtherNumbersForEachCallAndLayer) {
  Dropout shared(0.5);
  const SymbolicTensor x = Input({8});
  const Model model(x, Dropout(0.5)(shared(shared(x))));
  const TracedGraph traced = trace_for(model, 2, true);
  std::vector<std::string> attributes;
  for (const ir::NodeId id : traced.graph->order()) {
    const ir::Node& node = traced.graph->node(id);
    if (node.op->name == "dropout") attributes.push_back(node.attributes.to_string());
  }
  ASSERT_EQ(attributes.size(), 3u);
  EXPECT_NE(attributes[0], attributes[1]);
  EXPECT_NE(attributes[1], attributes[2]);
  EXPECT_NE(attributes[0], attributes[2]);
}

}  // namespace
}  // namespace demi::testing
