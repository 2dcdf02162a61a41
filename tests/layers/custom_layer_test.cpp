// Layers of one's own: alone, sharing, nested.
#include <gtest/gtest.h>

#include <demi/layers/activation.h>
#include <demi/layers/dense.h>
#include <demi/layers/dropout.h>
#include <demi/layers/input.h>
#include <demi/model.h>
#include <demi/ops/binary.h>
#include <demi/ops/movement.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>

#include "tests/support/layer_harness.h"
#include "tests/support/message_of.h"

namespace demi::testing {
namespace {

class Scale : public LayerOf<Scale> {
 public:
  explicit Scale(const std::string& name = "")
      : LayerOf({.class_name = "TestScale", .name = name}) {}
  void build(const Shape& input_shape) override {
    ++builds;
    factor_ = add_weight({.name = "factor",
                          .shape = {input_shape[-1]},
                          .initializer = initializers::Constant(3),
                          .regularizer = "l2"});
  }
  SymbolicTensor call(const SymbolicTensor& x, const CallContext&) override { return x * factor_; }

  static inline int builds = 0;

 private:
  Variable factor_;
};

/// A residual block whose inner layers are members.
class Block : public LayerOf<Block> {
 public:
  explicit Block(std::int64_t units)
      : LayerOf({.class_name = "TestBlock"}),
        first_({.units = units, .activation = "relu"}),
        second_({.units = units, .kernel_regularizer = "l2"}) {}
  SymbolicTensor call(const SymbolicTensor& x, const CallContext&) override {
    const SymbolicTensor y = second_(first_(x));
    add_loss(ops::mean(ops::square(y)));
    return x + y;
  }

 private:
  Dense first_;
  Dense second_;
};

class Split : public LayerOf<Split> {
 public:
  Split() : LayerOf({.class_name = "TestSplit"}) {}
  std::vector<SymbolicTensor> call_many(const std::vector<SymbolicTensor>& inputs,
                                        const CallContext&) override {
    const SymbolicTensor& x = inputs.at(0);
    const std::int64_t half = x.shape()[-1] / 2;
    return {ops::slice(x, {0, 0}, {-1, half}), ops::slice(x, {0, half}, {-1, half})};
  }
};

/// Calls an inner layer only in training.
class Late : public LayerOf<Late> {
 public:
  Late() : LayerOf({.class_name = "TestLate"}), inner_({.units = 2}) {}
  SymbolicTensor call(const SymbolicTensor& x, const CallContext& context) override {
    return context.training ? inner_(x) : x;
  }

 private:
  Dense inner_;
};

TEST(CustomLayer, BehavesAsALayer) {
  expect_layer({.make =
                    [] {
                      static const bool registered = [] {
                        register_layer("TestScale",
                                       [](const Config&) { return std::make_shared<Scale>(); });
                        return true;
                      }();
                      (void)registered;
                      return std::make_shared<Scale>();
                    },
                .inputs = {{4, 3}},
                .output = {4, 3},
                .trainable = 1,
                .params = 3});
}

TEST(CustomLayer, CopiesShareVariables) {
  Scale original;
  Scale copy_before = original;
  const SymbolicTensor x = Input({3});
  const SymbolicTensor a = original(x);
  Scale copy_after = original;
  const SymbolicTensor b = copy_before(x);
  const SymbolicTensor c = copy_after(x);
  EXPECT_EQ(original.variables(), copy_before.variables());
  EXPECT_EQ(original.variables(), copy_after.variables());
  const Model model(x, {a, b, c});
  EXPECT_EQ(model.layers().size(), 1u);
  EXPECT_EQ(model.count_params(), 3);
}

TEST(CustomLayer, IsBuiltOnce) {
  Scale::builds = 0;
  Scale layer;
  const SymbolicTensor x = Input({3});
  layer(layer(x));
  EXPECT_EQ(Scale::builds, 1);
}

TEST(CustomLayer, OwnsTheLayersItCalls) {
  reset_layer_names();
  Block block(4);
  EXPECT_TRUE(block.variables().empty());
  const SymbolicTensor x = Input({4});
  const SymbolicTensor y = block(x);
  ASSERT_EQ(block.variables().size(), 4u);
  EXPECT_EQ(block.variables()[0].name(), "test_block/dense/kernel");
  EXPECT_EQ(block.variables()[3].name(), "test_block/dense_1/bias");
  const Model model(x, y);
  EXPECT_EQ(model.layers().size(), 1u);
  EXPECT_EQ(model.count_params(), 2 * (16 + 4));

  const TracedGraph traced = trace_for(model, 2, true);
  // One from add_loss, one from the kernel of the second layer.
  EXPECT_EQ(traced.traced.losses.size(), 2u);
  const std::string text = autocast_text(model, 2);
  EXPECT_NE(text.find("# test_block/dense forward"), std::string::npos) << text;
}

TEST(CustomLayer, TellsInnerLayersApartByName) {
  class Twins : public LayerOf<Twins> {
   public:
    Twins()
        : LayerOf({.class_name = "TestTwins"}),
          first_({.units = 2, .name = "same"}),
          second_({.units = 2, .name = "same"}) {}
    SymbolicTensor call(const SymbolicTensor& x, const CallContext&) override {
      return second_(first_(x));
    }

   private:
    Dense first_;
    Dense second_;
  };
  EXPECT_NE(message_of<std::invalid_argument>([] {
              Twins()(Input({2}));
            }).find("expected inner layers with different names. Received: 'same'"),
            std::string::npos);
}

TEST(CustomLayer, FreezesInnerLayers) {
  Block block(4);
  block.set_trainable(false);
  const SymbolicTensor x = Input({4});
  const Model model(x, block(x));
  EXPECT_TRUE(model.trainable_variables().empty());
  EXPECT_EQ(model.non_trainable_variables().size(), 4u);
  EXPECT_EQ(trace_for(model, 2, true).traced.losses.size(), 1u);
  block.set_trainable(true);
  EXPECT_EQ(model.trainable_variables().size(), 4u);
}

TEST(CustomLayer, GivesSeveralResults) {
  Split split;
  const SymbolicTensor x = Input({6});
  const std::vector<SymbolicTensor> halves = split.apply({x});
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[1].shape(), (Shape{Shape::kUnknown, 3}));
  const Model model(x, {halves[1], halves[0]});
  const Tensor input = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 6});
  std::vector<Tensor> inputs;
  inputs.push_back(input.clone());
  EXPECT_EQ(predict(model, inputs).at(0), 4);
  EXPECT_NE(message_of<std::invalid_argument>([&] { split(x); }).find("apply()"),
            std::string::npos);
}

TEST(CustomLayer, RefusesItsFirstCallInAStep) {
  Late late;
  const SymbolicTensor x = Input({2});
  const Model model(x, late(x));
  const std::string message =
      message_of<std::invalid_argument>([&] { (void)trace_for(model, 2, true); });
  EXPECT_NE(message.find("expected to be called also outside of training"), std::string::npos)
      << message;
}

TEST(CustomLayer, RunsInItsOwnDtype) {
  const PolicyScope scope("mixed_float16");
  const SymbolicTensor x = Input({4});
  SymbolicTensor y = Dense({.units = 4})(x);
  EXPECT_EQ(y.dtype(), float16);
  y = Dense({.units = 4, .dtype = "float32"})(y);
  EXPECT_EQ(y.dtype(), float32);
}

TEST(CustomLayer, ChecksWhatAddLossGets) {
  class Bad : public LayerOf<Bad> {
   public:
    Bad() : LayerOf({.class_name = "TestBad"}) {}
    SymbolicTensor call(const SymbolicTensor& x, const CallContext&) override {
      add_loss(x);
      return x;
    }
  };
  EXPECT_EQ(message_of<std::invalid_argument>([] { Bad()(Input({2})); }).substr(0, 45),
            "[test_bad] expected a floating scalar as loss");
}

TEST(CustomLayer, NeedsCallOrCallMany) {
  class Empty : public LayerOf<Empty> {
   public:
    Empty() : LayerOf({.class_name = "TestEmpty"}) {}
  };
  EXPECT_EQ(message_of<std::invalid_argument>([] { Empty()(Input({2})); }),
            "[test_empty] expected class TestEmpty to override call or call_many. Received: "
            "neither.");
}

TEST(CustomLayer, OpsOutsideOfLayersArePartOfTheModel) {
  const SymbolicTensor x = Input({3});
  const SymbolicTensor y = ops::square(x) * 2.0 + 1.0;
  const Model model(x, Activation("relu")(y - x));
  std::vector<Tensor> inputs;
  inputs.push_back(Tensor::from(std::vector<float>{0.25, 1, -3}, {1, 3}));
  const Tensor result = predict(model, inputs);
  EXPECT_EQ(result.at(0), 2 * 0.0625 + 1 - 0.25);
  EXPECT_EQ(result.at(1), 2);
  EXPECT_EQ(result.at(2), 22);
}

}  // namespace
}  // namespace demi::testing
