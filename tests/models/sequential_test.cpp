#include <functional>

#include <gtest/gtest.h>

#include <demi/layers/conv2d.h>
#include <demi/layers/dense.h>
#include <demi/layers/flatten.h>
#include <demi/layers/input.h>
#include <demi/layers/max_pooling2d.h>
#include <demi/model.h>

#include "src/training/model_impl.h"
#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"

namespace demi::testing {
namespace {

std::string refusal(const std::function<void()>& call) {
  return message_of<std::invalid_argument>(call);
}

TEST(Sequential, BuildsAtOnceWithAnInput) {
  Sequential model({
      Input({28, 28, 1}),
      Conv2D({.filters = 32, .kernel_size = {3, 3}, .activation = "relu"}),
      MaxPooling2D(),
      Conv2D({.filters = 64, .kernel_size = {3, 3}, .activation = "relu"}),
      MaxPooling2D(),
      Flatten(),
      Dense({.units = 128, .activation = "relu"}),
      Dense({.units = 10, .activation = "softmax"}),
  });
  EXPECT_TRUE(model.built());
  EXPECT_EQ(model.layers().size(), 7u);
  EXPECT_EQ(model.count_params(), 225034);
  EXPECT_EQ(model.variables().size(), 8u);
  EXPECT_EQ(model.impl().graph().output_type(0).shape, (Shape{Shape::kUnknown, 10}));
}

TEST(Sequential, BuildsLater) {
  Sequential model({Flatten(), Dense({.units = 2})});
  EXPECT_FALSE(model.built());
  EXPECT_EQ(model.layers().size(), 2u);
  EXPECT_NE(refusal([&] { (void)model.variables(); }).find("begin it with demi::Input"),
            std::string::npos);
  model.build({Shape::kUnknown, 3, 4});
  EXPECT_EQ(model.count_params(), 26);
  EXPECT_NO_THROW(model.build({7, 3, 4}));
  EXPECT_EQ(refusal([&] {
              model.build({7, 3, 5});
            }),
            "[sequential] expected the input shape [None, 3, 4] that it is built for. Received: "
            "[None, 3, 5].");
}

TEST(Sequential, GrowsByAdding) {
  Sequential model;
  model.add(Input({4}));
  model.add(Dense({.units = 3}));
  EXPECT_EQ(model.count_params(), 15);
  model.add(Dense({.units = 2}));
  EXPECT_EQ(model.count_params(), 23);
  EXPECT_THROW(model.add(MaxPooling2D()), std::invalid_argument);
  EXPECT_EQ(model.layers().size(), 2u);
  EXPECT_EQ(model.count_params(), 23);
}

TEST(Sequential, CopiesAreTheSameModel) {
  Sequential model({Input({4})});
  Model copy = model;
  model.add(Dense({.units = 3}));
  EXPECT_EQ(copy.count_params(), 15);
}

TEST(Sequential, SharesLayersWithTheirOwner) {
  Dense layer({.units = 2});
  Sequential model({Input({3}), layer});
  const SymbolicTensor x = Input({3});
  const Model other(x, layer(x));
  EXPECT_EQ(model.variables(), other.variables());
}

TEST(Sequential, RefusesBrokenLists) {
  reset_layer_names();
  EXPECT_EQ(
      refusal([] {
        Sequential({Dense({.units = 1}), Input({3})});
      }),
      "[sequential] expected an Input only as the first item. Received: 'input_layer' after a "
      "layer.");
  EXPECT_EQ(refusal([] {
              Dense layer({.units = 3});
              Sequential({Input({3}), layer, layer});
            }),
            "[sequential] expected layers with different names. Received: 'dense_1' twice.");
  EXPECT_EQ(refusal([] { Sequential({Dense({.units = 1})(Input({3}))}); }),
            "[sequential] expected layers, or the value of demi::Input. Received: another value.");
  EXPECT_EQ(refusal([] {
              Sequential().build({1, 2});
            }),
            "[sequential] expected at least one layer. Received: none.");
  EXPECT_EQ(refusal([] {
              Sequential({Input({784}), MaxPooling2D()});
            }),
            "[max_pooling2d] expected a 4-D input [N, H, W, C]. Received: [None, 784].");
}

}  // namespace
}  // namespace demi::testing
