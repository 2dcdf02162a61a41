// Functional models: wiring, sharing, errors.
#include <demi/model.h>

#include <functional>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include <demi/layers/activation.h>
#include <demi/layers/add.h>
#include <demi/layers/batch_normalization.h>
#include <demi/layers/concatenate.h>
#include <demi/layers/conv2d.h>
#include <demi/layers/dense.h>
#include <demi/layers/global_average_pooling2d.h>
#include <demi/layers/input.h>
#include <demi/layers/reshape.h>
#include <demi/layers/softmax.h>
#include <demi/ops/binary.h>

#include "src/training/model_impl.h"
#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi::testing {
namespace {

std::string refusal(const std::function<void()>& call) {
  return message_of<std::invalid_argument>(call);
}

std::vector<Tensor> list(Tensor a) {
  std::vector<Tensor> tensors;
  tensors.push_back(std::move(a));
  return tensors;
}

TEST(Model, HoldsWhatLeadsFromInputsToOutputs) {
  reset_layer_names();
  const SymbolicTensor x = Input({4});
  const SymbolicTensor a = Dense({.units = 3})(x);
  const SymbolicTensor b = Dense({.units = 2})(a);
  (void)Dense({.units = 7})(a);
  const Model model(x, b);
  ASSERT_EQ(model.layers().size(), 2u);
  EXPECT_EQ(model.layers()[0]->name(), "dense");
  EXPECT_EQ(model.layers()[1]->name(), "dense_1");
  EXPECT_EQ(model.name(), "functional");
  EXPECT_EQ(model.count_params(), 15 + 8);
  EXPECT_EQ(model.get_layer("dense_1")->count_params(), 8);
  EXPECT_NE(refusal([&] { (void)model.get_layer("dense_2"); }).find("Did you mean 'dense_1'?"),
            std::string::npos);
}

TEST(Model, OutlivesTheValuesItWasMadeOf) {
  std::optional<Model> model;
  {
    const SymbolicTensor x = Input({2});
    model.emplace(x, Activation("relu")(x));
  }
  EXPECT_EQ(predict(*model, list(Tensor::from(std::vector<float>{-1, 2}, {1, 2}))).at(1), 2);
}

TEST(Model, SharesLayers) {
  const SymbolicTensor a = Input({3});
  const SymbolicTensor b = Input({3});
  Dense shared({.units = 2});
  const Model model({a, b}, Concatenate()({shared(a), shared(b)}));
  EXPECT_EQ(model.count_params(), 8);
  EXPECT_EQ(model.layers().size(), 2u);
  std::vector<Tensor> inputs = list(random_tensor({2, 3}, float32, 1));
  inputs.push_back(inputs[0].clone());
  const Tensor y = predict(model, inputs);
  EXPECT_EQ(y.at(0), y.at(2));
  EXPECT_EQ(y.at(1), y.at(3));
}

TEST(Model, AddsResiduals) {
  const SymbolicTensor x = Input({4, 4, 2});
  SymbolicTensor y = Conv2D({.filters = 2, .kernel_size = 3, .padding = "same"})(x);
  y = BatchNormalization()(y);
  y = Add()({x, y});
  y = GlobalAveragePooling2D()(Activation("relu")(y));
  const Model model(x, y);
  EXPECT_EQ(model.impl().graph().output_type(0).shape, (Shape{Shape::kUnknown, 2}));
  EXPECT_EQ(predict(model, list(random_tensor({3, 4, 4, 2}, float32, 1))).shape(), (Shape{3, 2}));
}

TEST(Model, TakesSeveralInputsAndOutputs) {
  const SymbolicTensor a = Input({3}, {.name = "left"});
  const SymbolicTensor b = Input({3}, {.name = "right"});
  const SymbolicTensor sum = Add()({a, b});
  const Model model({b, a}, {sum, a, Dense({.units = 1, .name = "head"})(sum)});
  const LayerGraph& graph = model.impl().graph();
  ASSERT_EQ(graph.inputs.size(), 2u);
  EXPECT_EQ(graph.inputs[0].name, "right");
  ASSERT_EQ(graph.outputs.size(), 3u);
  EXPECT_EQ(graph.outputs[1].name, "left");
  EXPECT_EQ(graph.outputs[2].name, "head");
}

TEST(Model, MayBeginAtTheResultOfALayer) {
  const SymbolicTensor x = Input({3});
  const SymbolicTensor hidden = Dense({.units = 2, .name = "first"})(x);
  const Model tail(hidden, Dense({.units = 1, .name = "second"})(hidden));
  EXPECT_EQ(tail.layers().size(), 1u);
  EXPECT_EQ(tail.impl().graph().inputs[0].name, "first_output");
}

TEST(Model, RefusesBrokenWiring) {
  reset_layer_names();
  const SymbolicTensor x = Input({3});
  const SymbolicTensor z = Input({3});
  const SymbolicTensor sum = Add()({x, z});
  EXPECT_EQ(
      refusal([&] { Model(x, sum); }),
      "[model] expected the outputs to depend on the inputs [input_layer] alone. Received: an "
      "output that also depends on 'input_layer_1'.");
  EXPECT_EQ(refusal([&] {
              Model({x, z}, Activation("relu")(x));
            }),
            "[model] expected every input to lead to an output. Received: 'input_layer_1', which "
            "leads to none.");
  EXPECT_EQ(refusal([&] {
              Model({x, x}, Activation("relu")(x));
            }),
            "[model] expected different inputs. Received: 'input_layer' twice.");
  EXPECT_EQ(refusal([&] { Model(std::vector<SymbolicTensor>{}, sum); }),
            "[model] expected inputs and outputs. Received: 0 inputs and 1 outputs.");
  EXPECT_NE(refusal([&] { Model(x, SymbolicTensor()); }).find("that are connected"),
            std::string::npos);
  const SymbolicTensor twice =
      Dense({.units = 3, .name = "same"})(Dense({.units = 3, .name = "same"})(x));
  EXPECT_EQ(refusal([&] { Model(x, twice); }),
            "[model] expected layers and inputs to have different names. Received: 'same' for two "
            "of them.");
}

TEST(Model, RefusesValuesOfAnotherThread) {
  SymbolicTensor other;
  std::thread([&] { other = Input({3}); }).join();
  const SymbolicTensor x = Input({3});
  EXPECT_NE(refusal([&] { Add()({x, other}); }).find("two graphs"), std::string::npos);
  EXPECT_NE(refusal([&] {
              Model({x, other}, Activation("relu")(x));
            }).find("one thread"),
            std::string::npos);
}

TEST(Model, ChecksTheShapesItIsTracedFor) {
  const SymbolicTensor x = Input({28, 28, 1}, {.name = "image"});
  const Model model(x, GlobalAveragePooling2D()(x));
  const auto trace = [&](const Shape& shape) {
    const auto graph = ir::Graph::create();
    (void)trace_model(model.impl().graph(),
                      {graph->tensor(graph->add_input("x", {shape, float32}))}, {});
  };
  EXPECT_EQ(refusal([&] {
              trace({128, 784});
            }),
            "[model] expected input 'image' of shape [None, 28, 28, 1]. Received: [128, 784].");
  EXPECT_NO_THROW(trace({128, 28, 28, 1}));
}

TEST(Model, OutputsAreFloat32UnderMixedPolicies) {
  const PolicyScope scope("mixed_float16");
  const SymbolicTensor x = Input({3});
  const SymbolicTensor hidden = Dense({.units = 4, .activation = "relu"})(x);
  const SymbolicTensor y = Dense({.units = 2, .activation = "softmax"})(hidden);
  EXPECT_EQ(hidden.dtype(), float16);
  const Model model(x, {y, hidden});
  EXPECT_EQ(model.impl().graph().output_type(0).dtype, float32);
  EXPECT_EQ(model.impl().graph().output_type(1).dtype, float32);
  const Tensor probabilities = predict(model, list(random_tensor({5, 3}, float32, 1)));
  EXPECT_EQ(probabilities.dtype(), float32);
  for (int i = 0; i < 5; ++i) {
    // A softmax rounded to float16 would miss 1 by more.
    EXPECT_NEAR(probabilities.at(2 * i) + probabilities.at(2 * i + 1), 1, 1e-6);
  }
}

TEST(Model, LeavesIntegersAlone) {
  const PolicyScope scope("mixed_float16");
  const SymbolicTensor x = Input({4}, {.dtype = int32});
  const SymbolicTensor y = Reshape({2, 2})(x);
  EXPECT_EQ(y.dtype(), int32);
  const Model model(x, y);
  const Tensor input = Tensor::from(std::vector<std::int32_t>{1, -2, 70000, 4}, {1, 4});
  const Tensor result = predict(model, list(input.clone()));
  ASSERT_EQ(result.dtype(), int32);
  EXPECT_EQ(result.at(2), 70000);
}

TEST(Model, TracesWithMarksAndCasts) {
  reset_layer_names();
  const PolicyScope scope("mixed_float16");
  const SymbolicTensor x = Input({4}, {.name = "x"});
  const SymbolicTensor y = Dense({.units = 2, .name = "out"})(
      Softmax({.name = "soft"})(Dense({.units = 3, .use_bias = false, .name = "in"})(x)));
  const std::string text = autocast_text(Model(x, y), 2);
  // The softmax computes in float32, and what the next layer reads is stored in 16 bits.
  EXPECT_NE(text.find("softmax"), std::string::npos);
  EXPECT_NE(text.find("layer_output"), std::string::npos);
  EXPECT_NE(text.find(": float32[2, 3]  # soft forward"), std::string::npos) << text;
  EXPECT_NE(text.find(": float16[2, 3]  # soft forward"), std::string::npos) << text;
  EXPECT_NE(text.find(": float16[2, 2]  # out forward"), std::string::npos) << text;
}

TEST(Model, PenalisesWeightsInFloat32) {
  const PolicyScope scope("mixed_float16");
  const SymbolicTensor x = Input({4});
  Dense layer({.units = 300, .use_bias = false, .kernel_regularizer = regularizers::L2(1)});
  const Model model(x, layer(x));
  const TracedGraph traced = trace_for(model, 2, true);
  ASSERT_EQ(traced.traced.losses.size(), 1u);
  EXPECT_EQ(traced.traced.losses[0].shape().rank(), 0);
  const std::string text = autocast_text(model, 2, true);
  EXPECT_NE(text.find("square("), std::string::npos);
  EXPECT_EQ(text.find(": float16[4, 300]  # " + layer.name() + " forward\n", text.find("square")),
            std::string::npos)
      << text;
}

TEST(Model, ActivityPenaltiesDoNotOverflow) {
  // 1024 outputs of 10: the sum of squares, 102400, exceeds float16, and so does 256².
  const PolicyScope scope("mixed_float16");
  const SymbolicTensor x = Input({1});
  const SymbolicTensor y = Dense({.units = 1024,
                                  .use_bias = false,
                                  .kernel_initializer = "ones",
                                  .activity_regularizer = regularizers::L2(1)})(x);
  const Model model(x, y);
  const std::vector<Tensor> result = run(
      [&](const std::vector<SymbolicTensor>& inputs) {
        return trace_model(model.impl().graph(), inputs, {.training = true}).losses;
      },
      list(Tensor::from(std::vector<float>{10}, {1, 1})));
  EXPECT_EQ(result.at(0).dtype(), float32);
  EXPECT_EQ(result.at(0).item(), 102400);
}

}  // namespace
}  // namespace demi::testing
