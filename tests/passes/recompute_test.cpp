// Activation recomputation on small graphs: printed text, identical bits, the choice.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/ops/binary.h>
#include <demi/ops/dropout.h>
#include <demi/ops/matmul.h>
#include <demi/ops/reduction.h>
#include <demi/ops/unary.h>
#include <demi/variable.h>

#include "src/passes/passes.h"
#include "src/runtime/executor.h"
#include "tests/support/golden.h"
#include "tests/support/op_harness.h"

namespace demi::passes {
namespace {

using demi::testing::expect_golden;
using demi::testing::expect_identical;
using demi::testing::random_tensor;

/// Four dense layers with dropout, differentiated; loss and gradients of the weights are the
/// results.
struct Chain {
  static constexpr int kLayers = 4;

  std::shared_ptr<ir::Graph> graph = ir::Graph::create();

  Chain() {
    const ir::TraceScope trace(graph);
    const auto steps = make_variable_state("steps", Tensor::scalar(std::int64_t{3}),
                                           VariableRole::kStepState, false);
    SymbolicTensor x = graph->tensor(graph->add_input("x", {{64, 32}, float32}));
    std::vector<std::shared_ptr<VariableState>> weights;
    for (int i = 0; i < kLayers; ++i) {
      const std::string layer = "dense_" + std::to_string(i);
      const ir::ScopeGuard scope(*graph, {.layer = layer});
      weights.push_back(make_variable_state(
          layer + "/kernel",
          random_tensor({32, 32}, float32, static_cast<std::uint64_t>(i), -0.3, 0.3),
          VariableRole::kWeight));
      x = ops::relu(ops::matmul(x, Variable(weights.back())));
      x = ops::dropout(x, 0.5, 7, graph->tensor(graph->read_variable(steps)));
    }
    const SymbolicTensor loss = ops::mean(ops::square(x));
    graph->add_output("loss", loss.value());
    for (const SymbolicTensor& gradient : differentiate(*graph, loss, weights)) {
      graph->add_output("gradient", gradient.value());
    }
    simplify(*graph);
    fuse(*graph, make_cpu_backend(1)->capabilities());
    ir::verify(*graph);
  }

  /// The values that layers [first, last] compute and the backward half reads.
  [[nodiscard]] std::vector<ir::ValueId> of_layers(int first, int last) const {
    std::vector<ir::ValueId> values = recomputable(*graph);
    std::erase_if(values, [&](ir::ValueId value) {
      const std::string& layer = graph->producer(value).scope.layer;
      if (!layer.starts_with("dense_")) return true;
      const int number = layer.back() - '0';
      return number < first || number > last;
    });
    return values;
  }

  [[nodiscard]] std::vector<Tensor> run() const {
    const auto backend = make_cpu_backend(1);
    runtime::Executor executor(plan::make_plan(graph, *backend),
                               std::make_shared<runtime::Arena>(backend));
    executor.set_feed(0, random_tensor({64, 32}, float32, 99, -1, 1));
    executor.run();
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < graph->outputs().size(); ++i) results.push_back(executor.output(i));
    return results;
  }
};

std::size_t activation_bytes(const ir::Graph& graph) {
  const auto backend = make_cpu_backend(1);
  return plan::make_plan(graph.shared_from_this(), *backend)->memory().activations;
}

TEST(Recompute, CopiesStandBeforeTheirFirstUse) {
  Chain chain;
  recompute(*chain.graph, chain.of_layers(1, 2));
  ir::verify(*chain.graph);
  expect_golden("passes/recompute_chain.txt", to_string(*chain.graph));
}

TEST(Recompute, GivesTheSameBits) {
  const std::vector<Tensor> expected = Chain().run();
  for (const auto& [first, last] :
       {std::pair(0, 0), std::pair(1, 2), std::pair(3, 3), std::pair(0, Chain::kLayers - 1)}) {
    Chain chain;
    const std::vector<ir::ValueId> dropped = chain.of_layers(first, last);
    ASSERT_FALSE(dropped.empty());
    const std::size_t before = activation_bytes(*chain.graph);
    recompute(*chain.graph, dropped);
    EXPECT_LT(activation_bytes(*chain.graph), before);
    const std::vector<Tensor> actual = chain.run();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_identical(actual[i], expected[i], "result " + std::to_string(i));
    }
  }
}

TEST(Recompute, BackwardNoLongerReadsWhatIsDropped) {
  Chain chain;
  const std::vector<ir::ValueId> dropped = chain.of_layers(0, 3);
  recompute(*chain.graph, dropped);
  const std::set<ir::ValueId> gone(dropped.begin(), dropped.end());
  int repeated = 0;
  for (const ir::NodeId id : chain.graph->order()) {
    const ir::Node& node = chain.graph->node(id);
    if (node.repeats >= 0) ++repeated;
    if (node.scope.phase != ir::Phase::kBackward) continue;
    for (const ir::ValueId input : node.inputs) EXPECT_EQ(gone.count(input), 0u);
  }
  EXPECT_EQ(recomputation_of(*chain.graph).nodes.size(), static_cast<std::size_t>(repeated));
  EXPECT_GT(recomputation_of(*chain.graph).work, 0);
  EXPECT_LE(recomputation_of(*chain.graph).work, recomputation_of(*chain.graph).forward_work);
}

TEST(Recompute, NothingDroppedChangesNothing) {
  Chain chain;
  const std::string before = to_string(*chain.graph);
  recompute(*chain.graph, {});
  EXPECT_EQ(to_string(*chain.graph), before);
}

TEST(ChooseRecomputation, FitsAndCouldNotDoWithLess) {
  const auto bytes = [](const ir::Graph& graph) {
    return plan::buffer_bytes(graph.shared_from_this());
  };
  const Chain chain;
  const std::size_t all = bytes(*chain.graph);
  const auto with = [&](const std::vector<ir::ValueId>& dropped) {
    const auto graph = chain.graph->copy();
    recompute(*graph, dropped);
    return std::pair(bytes(*graph), recomputation_of(*graph).work);
  };
  for (const double share : {0.95, 0.85, 0.75}) {
    const auto limit = static_cast<std::size_t>(share * static_cast<double>(all));
    const std::vector<ir::ValueId> chosen = choose_recomputation(*chain.graph, limit, bytes);
    const auto [used, work] = with(chosen);
    EXPECT_LE(used, limit);
    for (const ir::ValueId value : chosen) {
      std::vector<ir::ValueId> fewer = chosen;
      std::erase(fewer, value);
      const auto [fewer_used, fewer_work] = with(fewer);
      EXPECT_TRUE(fewer_used > limit || fewer_work >= work);
    }
  }
  EXPECT_TRUE(choose_recomputation(*chain.graph, all, bytes).empty());
  // Nothing fits: what needs least.
  const auto [least, work] = with(choose_recomputation(*chain.graph, 1, bytes));
  EXPECT_LT(least, all);
}

}  // namespace
}  // namespace demi::passes
