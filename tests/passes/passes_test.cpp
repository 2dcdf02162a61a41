// The passes on small graphs: printed text, and that rewriting does not change what is computed.
#include "src/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/ops/batch_norm.h>
#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/conv2d.h>
#include <demi/ops/cross_entropy.h>
#include <demi/ops/matmul.h>
#include <demi/ops/movement.h>
#include <demi/ops/pooling.h>
#include <demi/ops/reduction.h>
#include <demi/ops/softmax.h>
#include <demi/ops/unary.h>
#include <demi/variable.h>

#include "src/ir/emit.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi::passes {
namespace {

using demi::testing::expect_golden;
using demi::testing::message_of;
using ir::to_string;

constexpr Capabilities kAllFusions = {.conv2d_bias_activation = true,
                                      .conv2d_max_pool = true,
                                      .conv2d_backward_pooled = true,
                                      .matmul_bias_activation = true,
                                      .batch_norm_relu = true,
                                      .max_pool_relu = true};

Variable weight(const std::string& name, const Shape& shape) {
  const Tensor value = demi::testing::random_tensor(shape, float32, shape.elements(), -0.3, 0.3);
  return Variable(make_variable_state(name, value, VariableRole::kWeight));
}

/// A graph with one layer scope.
struct Net {
  std::shared_ptr<ir::Graph> graph = ir::Graph::create();
  ir::TraceScope trace{graph};

  explicit Net(DType compute_dtype) {
    graph->scope() = {.layer = "layer", .compute_dtype = compute_dtype};
  }
  SymbolicTensor input(const std::string& name, const Shape& shape, DType dtype = float32) {
    return graph->tensor(graph->add_input(name, {shape, dtype}));
  }
  void leave_layer() { graph->scope() = {}; }
};

TEST(Autocast, RunsADenseLayerInFloat16AndItsSoftmaxInFloat32) {
  Net net(float16);
  const Variable w = weight("w", {3, 2}), b = weight("b", {2});
  const SymbolicTensor x = net.input("x", {4, 3});
  // One by one: compilers differ in the order in which they evaluate arguments.
  const SymbolicTensor bias = b;
  const SymbolicTensor kernel = w;
  net.graph->add_output("y", ops::softmax(ops::add(ops::matmul(x, kernel), bias)).value());
  autocast(*net.graph);
  verify(*net.graph);
  expect_golden("passes/autocast_dense.txt", to_string(*net.graph));
}

TEST(Autocast, CastsAWeightOnceForAllItsUses) {
  Net net(float16);
  const Variable w = weight("w", {3, 3});
  const SymbolicTensor x = net.input("x", {4, 3});
  net.graph->add_output("y", ops::matmul(ops::matmul(x, w), w).value());
  autocast(*net.graph);
  int casts = 0;
  for (const ir::NodeId id : net.graph->order()) casts += net.graph->node(id).op->name == "cast";
  EXPECT_EQ(casts, 2) << to_string(*net.graph);  // x and w
}

TEST(Autocast, LeavesIntegersAndFloat32PolicyAlone) {
  Net net(float16);
  const SymbolicTensor labels = net.input("labels", {4}, int32);
  net.graph->add_output("y", ops::add(labels, labels).value());
  autocast(*net.graph);
  EXPECT_EQ(net.graph->order().size(), 2u);

  Net plain(float32);
  const Variable w = weight("w", {3, 2});
  plain.graph->add_output("y", ops::matmul(plain.input("x", {4, 3}), w).value());
  const std::string before = to_string(*plain.graph);
  autocast(*plain.graph);
  EXPECT_EQ(to_string(*plain.graph), before);
}

TEST(Autocast, PromotesElementwiseOpsToTheWidestOperandButNotByConstants) {
  Net net(float16);
  const Variable w = weight("w", {3, 2});
  const SymbolicTensor h = ops::matmul(net.input("x", {4, 3}), w);  // float16 after the pass
  const SymbolicTensor scaled = ops::multiply(h, 0.5);
  const SymbolicTensor mixed = ops::add(h, net.input("z", {4, 2}));
  net.graph->add_output("scaled", scaled.value());
  net.graph->add_output("mixed", mixed.value());
  autocast(*net.graph);
  verify(*net.graph);
  EXPECT_EQ(scaled.dtype(), float16) << to_string(*net.graph);
  EXPECT_EQ(mixed.dtype(), float32) << to_string(*net.graph);
}

TEST(Differentiate, WritesTheBackwardHalfOfADenseLayer) {
  Net net(float16);
  const Variable w = weight("w", {3, 2}), b = weight("b", {2});
  const SymbolicTensor bias = b;
  const SymbolicTensor kernel = w;
  const SymbolicTensor x = net.input("x", {4, 3});
  const SymbolicTensor h = ops::relu(ops::add(ops::matmul(x, kernel), bias));
  net.leave_layer();
  const SymbolicTensor loss = ops::mean(ops::square(ops::cast(h, float32)));
  autocast(*net.graph);
  const std::vector<SymbolicTensor> gradients =
      differentiate(*net.graph, loss, {w.state(), b.state()});
  net.graph->add_output("dw", gradients[0].value());
  net.graph->add_output("db", gradients[1].value());
  simplify(*net.graph);
  verify(*net.graph);
  expect_golden("passes/differentiate_dense.txt", to_string(*net.graph));
}

TEST(Differentiate, SumsTheGradientsOfSeveralUses) {
  Net net(float32);
  const Variable w = weight("w", {2, 2});
  const SymbolicTensor x = net.input("x", {2, 2});
  const SymbolicTensor loss = ops::sum(ops::matmul(ops::matmul(x, w), w));
  const SymbolicTensor dw = differentiate(*net.graph, loss, {w.state()})[0];
  EXPECT_EQ(ir::producer(dw).op->name, "add");
}

TEST(Differentiate, GivesNoGradientWhereTheLossDoesNotDepend) {
  Net net(float32);
  const Variable used = weight("used", {2}), unused = weight("unused", {2});
  const SymbolicTensor loss = ops::sum(ops::square(SymbolicTensor(used)));
  const auto gradients = differentiate(*net.graph, loss, {used.state(), unused.state()});
  EXPECT_TRUE(gradients[0]);
  EXPECT_FALSE(gradients[1]);
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { (void)differentiate(*net.graph, loss, {unused.state()}); }),
              ::testing::HasSubstr("[compile] expected a loss that depends on a trainable weight"));
}

TEST(UseLogits, ReadsTheSoftmaxInputAlsoThroughLayerOutputs) {
  Net net(float32);
  const SymbolicTensor z = net.input("z", {4, 3});
  const SymbolicTensor p = ir::emit("layer_output", {ops::softmax(z)});
  const SymbolicTensor loss =
      ops::sparse_categorical_crossentropy(net.input("labels", {4}, int32), p);
  net.graph->add_output("loss", loss.value());
  use_logits(*net.graph);
  net.graph->erase_dead();
  const ir::Node& node = ir::producer(loss);
  EXPECT_EQ(node.inputs[0], z.value()) << to_string(*net.graph);
  EXPECT_TRUE(node.attributes.as<ops::CrossEntropyAttributes>().from_logits);
}

TEST(UseLogits, LeavesProbabilitiesFromElsewhereAlone) {
  Net net(float32);
  const SymbolicTensor p = net.input("p", {4, 3});
  const SymbolicTensor loss =
      ops::sparse_categorical_crossentropy(net.input("labels", {4}, int32), p);
  use_logits(*net.graph);
  EXPECT_FALSE(ir::producer(loss).attributes.as<ops::CrossEntropyAttributes>().from_logits);
}

TEST(Simplify, FoldsCastsIntoTheStoresOfProducts) {
  Net net(float16);
  const SymbolicTensor a = net.input("a", {4, 3}, float16), b = net.input("b", {3, 2}, float16);
  net.graph->add_output("y", ops::cast(ops::matmul(a, b), float32).value());
  simplify(*net.graph);
  verify(*net.graph);
  EXPECT_EQ(net.graph->order().size(), 3u) << to_string(*net.graph);
}

TEST(Simplify, DropsCastsThereAndBackButNotThoseThatRound) {
  Net net(float32);
  const SymbolicTensor half = net.input("half", {4}, float16);
  const SymbolicTensor full = net.input("full", {4}, float32);
  net.graph->add_output("kept", ops::cast(ops::cast(full, float16), float32).value());
  net.graph->add_output("dropped", ops::cast(ops::cast(half, float32), float16).value());
  simplify(*net.graph);
  EXPECT_EQ(net.graph->outputs()[1].value, half.value());
  EXPECT_NE(net.graph->outputs()[0].value, full.value());
}

TEST(Simplify, ComputesRepeatedThingsOnce) {
  Net net(float32);
  const SymbolicTensor x = net.input("x", {4});
  net.graph->add_output("y", ops::add(ops::square(x), ops::square(x)).value());
  simplify(*net.graph);
  EXPECT_EQ(net.graph->order().size(), 3u) << to_string(*net.graph);
}

/// conv → bias → relu → max-pool → sum, and its gradients.
std::vector<SymbolicTensor> conv_block(const std::vector<SymbolicTensor>& in) {
  const SymbolicTensor h = ops::relu(ops::add(ops::conv2d(in[0], in[1]), in[2]));
  return {ops::max_pool2d(h).first};
}

TEST(Fuse, MakesOneOpOfConvBiasReluAndMaxPool) {
  demi::testing::RunOptions options;
  options.fuse = true;
  expect_golden(
      "passes/fuse_conv_block.txt",
      demi::testing::printed_graph(
          conv_block, {{{2, 8, 8, 3}, float16}, {{3, 3, 3, 8}, float16}, {{8}, float16}}, options));
}

TEST(Fuse, KeepsOnlyPooledValueAndIndexForTheBackwardHalf) {
  Net net(float16);
  const Variable w = weight("w", {3, 3, 3, 8}), b = weight("b", {8}), w2 = weight("w2", {72, 4});
  const SymbolicTensor x = net.input("x", {2, 8, 8, 3});
  const SymbolicTensor h = conv_block({x, w, b})[0];
  const SymbolicTensor kernel = w2;
  const SymbolicTensor y = ops::matmul(ops::reshape(h, {2, 72}), kernel);
  net.leave_layer();
  const SymbolicTensor loss = ops::mean(ops::square(ops::cast(y, float32)));
  autocast(*net.graph);
  const auto gradients = differentiate(*net.graph, loss, {w.state(), b.state(), w2.state()});
  for (const SymbolicTensor& gradient : gradients) net.graph->add_output("d", gradient.value());
  simplify(*net.graph);
  fuse(*net.graph, kAllFusions);
  simplify(*net.graph);
  verify(*net.graph);
  expect_golden("passes/fuse_training.txt", to_string(*net.graph));
}

/// Gradients of a convolution whose result is pooled by a layer of another dtype.
std::string gradients_of_conv_before_pool_of(DType pool_dtype, bool relu_in_pool) {
  Net net(float16);
  const SymbolicTensor x = net.input("x", {2, 8, 8, 3}, float16);
  const SymbolicTensor w = net.input("w", {3, 3, 3, 8}, float16);
  const SymbolicTensor dy = net.input("dy", {2, 3, 3, 8}, pool_dtype);
  const SymbolicTensor index = net.input("index", {2, 3, 3, 8}, uint8);
  ops::Pool2DAttributes pool{.relu = relu_in_pool, .image_size = {6, 6}};
  std::vector<SymbolicTensor> inputs = {dy, index};
  if (relu_in_pool) inputs.push_back(net.input("y", {2, 3, 3, 8}, pool_dtype));
  const SymbolicTensor image = ir::emit("max_pool2d_backward", inputs, pool);
  const SymbolicTensor d = ops::cast(image, float16);
  const auto add_output = [&](const SymbolicTensor& value) {
    net.graph->add_output("d", value.value());
  };
  add_output(ops::conv2d_backward_input(d, w, {.result_size = {8, 8}}));
  add_output(ops::conv2d_backward_filter(x, d, {.result_size = {3, 3}}));
  add_output(ops::sum_to(d, {8}));
  fuse(*net.graph, kAllFusions);
  verify(*net.graph);
  return to_string(*net.graph);
}

TEST(Fuse, LeavesNoReaderForTheScatteredGradientBehindACast) {
  const std::string text = gradients_of_conv_before_pool_of(float32, false);
  EXPECT_THAT(text, ::testing::HasSubstr("conv2d_backward_input_pooled"));
  EXPECT_THAT(text, ::testing::HasSubstr("conv2d_backward_filter_pooled"));
  EXPECT_THAT(text, ::testing::HasSubstr(": float16[2, 3, 3, 8]"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("max_pool2d_backward")));
}

TEST(Fuse, TakesAGradientThatThePoolingMasksAsItIs) {
  const std::string text = gradients_of_conv_before_pool_of(float16, true);
  EXPECT_THAT(text, ::testing::HasSubstr("max_pool2d_backward"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("_pooled")));
}

TEST(Fuse, DoesNotChangeResultsOrGradients) {
  using namespace demi::testing;
  for (const DType dtype : {float64, float32, float16, bfloat16}) {
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor({2, 9, 8, 3}, dtype, 1));
    inputs.push_back(random_tensor({3, 3, 3, 8}, dtype, 2, -0.3, 0.3));
    inputs.push_back(random_tensor({8}, dtype, 3));
    RunOptions plain, fused;
    plain.simplify = true;
    fused.fuse = true;
    const std::vector<Tensor> expected = run(conv_block, inputs, plain);
    const std::vector<Tensor> actual = run(conv_block, inputs, fused);
    const double unit = rounding_unit(dtype);
    // The fused sum of 27 products starts from the bias instead of ending with it: a few roundings
    // of the accumulation, of which 16-bit storage shows none but its own.
    expect_close(actual[0], to_doubles(expected[0]), (is_half(dtype) ? 3 : 16) * unit, 1.0,
                 "forward");
    std::vector<Tensor> weights;
    weights.push_back(random_tensor(expected[0].shape(), dtype, 4));
    const std::vector<Tensor> plain_gradients = gradients(conv_block, inputs, weights, plain);
    const std::vector<Tensor> fused_gradients = gradients(conv_block, inputs, weights, fused);
    // 16-bit storage may choose another maximum where two candidates round to the same value.
    if (is_half(dtype)) continue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect_close(fused_gradients[i], to_doubles(plain_gradients[i]), 64 * unit, 1.0,
                   "gradient " + std::to_string(i));
    }
  }
}

/// A frozen normalization and a relu.
std::vector<SymbolicTensor> frozen_block(const std::vector<SymbolicTensor>& in) {
  return {ops::relu(ops::batch_norm_inference(in[0], in[1], in[2], in[3], in[4], 1e-3))};
}

TEST(Fuse, MasksTheGradientInsideAFrozenBatchNorm) {
  Net net(float16);
  const Variable gamma = weight("gamma", {8}), beta = weight("beta", {8});
  const SymbolicTensor mean = net.input("mean", {8}), variance = net.input("variance", {8});
  const SymbolicTensor x = net.input("x", {2, 4, 4, 8});
  const SymbolicTensor y = frozen_block({x, gamma, beta, mean, variance})[0];
  net.leave_layer();
  const SymbolicTensor loss = ops::mean(ops::square(ops::cast(y, float32)));
  autocast(*net.graph);
  const auto gradients = differentiate(*net.graph, loss, {gamma.state(), beta.state()});
  for (const SymbolicTensor& gradient : gradients) net.graph->add_output("d", gradient.value());
  simplify(*net.graph);
  fuse(*net.graph, kAllFusions);
  verify(*net.graph);
  expect_golden("passes/fuse_frozen_batch_norm.txt", to_string(*net.graph));
}

TEST(Fuse, DoesNotChangeAFrozenBatchNorm) {
  using namespace demi::testing;
  for (const DType dtype : {float64, float32, float16, bfloat16}) {
    std::vector<Tensor> inputs;
    inputs.push_back(random_tensor({3, 5, 4, 7}, dtype, 1));
    for (const int seed : {2, 3, 4}) {
      inputs.push_back(random_tensor({7}, accumulation_dtype(dtype), seed));
    }
    inputs.push_back(random_tensor({7}, accumulation_dtype(dtype), 5, 0.5, 2));
    RunOptions plain, fused;
    plain.simplify = true;
    fused.fuse = true;
    const std::vector<Tensor> expected = run(frozen_block, inputs, plain);
    expect_identical(run(frozen_block, inputs, fused)[0], expected[0], "forward");
    std::vector<Tensor> weights;
    weights.push_back(random_tensor(expected[0].shape(), dtype, 6));
    const std::vector<Tensor> plain_gradients = gradients(frozen_block, inputs, weights, plain);
    const std::vector<Tensor> fused_gradients = gradients(frozen_block, inputs, weights, fused);
    for (std::size_t i = 0; i < 3; ++i) {
      expect_identical(fused_gradients[i], plain_gradients[i], "gradient " + std::to_string(i));
    }
  }
}

TEST(Fuse, LeavesAValueThatSomebodyElseReads) {
  Net net(float32);
  const SymbolicTensor conv =
      ops::conv2d(net.input("x", {1, 4, 4, 1}), net.input("w", {3, 3, 1, 2}));
  const SymbolicTensor relu = ops::relu(conv);
  net.graph->add_output("before", conv.value());
  net.graph->add_output("after", relu.value());
  fuse(*net.graph, kAllFusions);
  EXPECT_EQ(ir::producer(relu).op->name, "relu");
}

}  // namespace
}  // namespace demi::passes
