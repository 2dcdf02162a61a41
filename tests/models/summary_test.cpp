#include <sstream>

#include <gtest/gtest.h>

#include <demi/layers/add.h>
#include <demi/layers/conv2d.h>
#include <demi/layers/dense.h>
#include <demi/layers/flatten.h>
#include <demi/layers/input.h>
#include <demi/model.h>
#include <demi/ops/binary.h>

#include "src/training/model/summary.h"
#include "tests/support/layer_harness.h"

namespace demi::testing {
namespace {

TEST(Summary, OfASequentialIsKerasTable) {
  reset_layer_names();
  const PolicyScope scope("mixed_float16");
  const Sequential model({Input({28, 28, 1}), Conv2D({.filters = 32, .kernel_size = 3}), Flatten(),
                          Dense({.units = 10, .activation = "softmax", .name = "classes"})},
                         {.name = "cnn"});
  EXPECT_EQ(format_summary(model.impl(), std::nullopt), R"(Model: "cnn"
┏━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┓
┃ Layer (type)      ┃ Output Shape       ┃ Output dtype ┃ Param # ┃
┡━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━┩
│ conv2d (Conv2D)   │ (None, 26, 26, 32) │ float16      │     320 │
├───────────────────┼────────────────────┼──────────────┼─────────┤
│ flatten (Flatten) │ (None, 21632)      │ float16      │       0 │
├───────────────────┼────────────────────┼──────────────┼─────────┤
│ classes (Dense)   │ (None, 10)         │ float32      │ 216,330 │
└───────────────────┴────────────────────┴──────────────┴─────────┘
 Total params: 216,650 (846.29 KB)
 Trainable params: 216,650 (846.29 KB)
 Non-trainable params: 0 (0.00 B)
)");
}

TEST(Summary, OfAFunctionalModelShowsConnectionsAndBytes) {
  reset_layer_names();
  const SymbolicTensor x = Input({4}, {.name = "x"});
  Dense shared({.units = 4, .trainable = false});
  const SymbolicTensor y = Add()({shared(shared(x)), x * 2.0});
  const Model model(x, y);
  const ActivationBytes bytes{.batch_size = 8, .by_layer = {{"dense", 1536}, {"add", 128}}};
  EXPECT_EQ(format_summary(model.impl(), bytes), R"(Model: "functional"
┏━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)   ┃ Output Shape ┃ Output dtype ┃ Param # ┃ Activations (batch 8) ┃ Connected to                ┃
┡━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┩
│ x (InputLayer) │ (None, 4)    │ float32      │       0 │                       │ -                           │
├────────────────┼──────────────┼──────────────┼─────────┼───────────────────────┼─────────────────────────────┤
│ dense (Dense)  │ (None, 4)    │ float32      │      20 │              1.50 KiB │ x[0][0], dense[0][0]        │
├────────────────┼──────────────┼──────────────┼─────────┼───────────────────────┼─────────────────────────────┤
│ multiply (op)  │ (None, 4)    │ float32      │       0 │                       │ x[0][0]                     │
├────────────────┼──────────────┼──────────────┼─────────┼───────────────────────┼─────────────────────────────┤
│ add (Add)      │ (None, 4)    │ float32      │       0 │              128.00 B │ dense[1][0], multiply[0][0] │
└────────────────┴──────────────┴──────────────┴─────────┴───────────────────────┴─────────────────────────────┘
 Total params: 20 (80.00 B)
 Trainable params: 0 (0.00 B)
 Non-trainable params: 20 (80.00 B)
)");
}

TEST(Summary, ShowsPlannedActivationBytes) {
  const auto bytes_of = [](const DTypePolicy& policy) {
    const PolicyScope scope(policy);
    const Sequential model({Input({8, 8, 4}),
                            Conv2D({.filters = 16, .kernel_size = 3, .name = "c"}), Flatten(),
                            Dense({.units = 10})});
    std::ostringstream text;
    model.summary(text, {.batch_size = 16});
    const std::string row = text.str().substr(text.str().find("c (Conv2D)"));
    const std::size_t end = row.find(" KiB");
    return std::stod(row.substr(row.rfind("│ ", end) + std::string("│ ").size()));
  };
  // The convolution's result, 16 · 6 · 6 · 16 values, and in 16 bits also its input, 16 · 8 · 8
  // · 4.
  EXPECT_EQ(bytes_of("float32"), 16 * 6 * 6 * 16 * 4 / 1024.0);
  EXPECT_EQ(bytes_of("mixed_float16"), (16 * 6 * 6 * 16 + 16 * 8 * 8 * 4) * 2 / 1024.0);
}

TEST(Summary, OfAModelThatLearnsNothing) {
  const SymbolicTensor x = Input({2});
  std::ostringstream text;
  Model(x, x + x).summary(text);
  EXPECT_NE(text.str().find("add (op)"), std::string::npos) << text.str();
}

TEST(Summary, OfAnUnbuiltModel) {
  const Sequential model({Dense({.units = 2, .name = "d"})}, {.name = "later"});
  std::ostringstream text;
  model.summary(text);
  EXPECT_NE(text.str().find("│ d (Dense)    │ ?            │ ?            │ 0 (unbuilt) │"),
            std::string::npos)
      << text.str();
}

}  // namespace
}  // namespace demi::testing
