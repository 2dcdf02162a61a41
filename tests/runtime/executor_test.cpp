#include "src/runtime/executor.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/error.h>
#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/unary.h>
#include <demi/variable.h>

#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi::runtime {
namespace {

using demi::testing::message_of;
using demi::testing::to_doubles;
using ::testing::ElementsAre;

struct Net {
  std::shared_ptr<ir::Graph> graph = ir::Graph::create();
  ir::TraceScope trace{graph};
  std::shared_ptr<Backend> backend = testing::test_backend(testing::test_device(), 1);
  std::shared_ptr<Arena> arena = std::make_shared<Arena>(backend);

  SymbolicTensor input(const std::string& name, const Shape& shape, DType dtype = float32) {
    return graph->tensor(graph->add_input(name, {shape, dtype}));
  }
  std::unique_ptr<Executor> executor(int feed_sets = 1) {
    return std::make_unique<Executor>(plan::make_plan(graph, *backend), arena, feed_sets);
  }
};

Tensor vector(std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {size});
}

TEST(Executor, RunsOnEachSetOfFeeds) {
  Net net;
  net.graph->add_output("y", ops::square(net.input("x", {2})).value());
  const auto executor = net.executor(2);
  executor->set_feed(0, vector({1, 2}), 0);
  executor->set_feed(0, vector({3, 4}), 1);
  executor->run(0);
  EXPECT_THAT(to_doubles(executor->output(0)), ElementsAre(1, 4));
  executor->run(1);
  EXPECT_THAT(to_doubles(executor->output(0)), ElementsAre(9, 16));
}

TEST(Executor, ReadsVariablesWhereTheyLive) {
  Net net;
  const Variable w(make_variable_state("w", vector({10, 20}), VariableRole::kWeight));
  net.graph->add_output("y", ops::add(net.input("x", {2}), w).value());
  const auto executor = net.executor();
  executor->set_feed(0, vector({1, 2}));
  executor->run();
  EXPECT_THAT(to_doubles(executor->output(0)), ElementsAre(11, 22));
  w.assign(vector({0, 1}));
  executor->run();
  EXPECT_THAT(to_doubles(executor->output(0)), ElementsAre(1, 3));
}

TEST(Executor, SurvivesAnArenaThatGrowsForAnotherPlan) {
  Net small;
  small.graph->add_output("y", ops::square(small.input("x", {2})).value());
  const auto first = small.executor();
  first->set_feed(0, vector({1, 2}));
  first->run();

  const auto graph = ir::Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{5000}, float32}));
  graph->add_output("y", ops::negative(x).value());
  Executor second(plan::make_plan(graph, *small.backend), small.arena);
  second.run();
  first->run();
  EXPECT_THAT(to_doubles(first->output(0)), ElementsAre(1, 4));
}

/// A plan that has run, and a larger one for the same arena.
struct TwoPlans {
  Net small;
  std::unique_ptr<Executor> first;
  std::shared_ptr<const plan::Plan> larger;

  TwoPlans() {
    small.graph->add_output("y", ops::square(small.input("x", {2})).value());
    first = small.executor();
    first->set_feed(0, vector({1, 2}));
    first->run();
    const auto graph = ir::Graph::create();
    const SymbolicTensor x = graph->tensor(graph->add_input("x", {{5000}, float32}));
    graph->add_output("y", ops::negative(ops::square(x)).value());
    larger = plan::make_plan(graph, *small.backend);
  }
  [[nodiscard]] std::size_t in_use() const {
    return MemoryPool::of(small.backend->name()).stats().in_use;
  }
};

TEST(Executor, GivesBackTheArenaThatWasTooSmall) {
  TwoPlans plans;
  const std::size_t before = plans.in_use();
  const std::size_t arena = plans.small.arena->memory()->bytes();
  plans.small.arena->reserve(10 * arena, 0);
  EXPECT_EQ(plans.in_use(), before + 9 * arena);
  plans.first->run();
  EXPECT_THAT(to_doubles(plans.first->output(0)), ElementsAre(1, 4));
}

TEST(Executor, RunsOnWhereAnotherPlanDoesNotFit) {
  TwoPlans plans;
  MemoryPool& pool = MemoryPool::of(plans.small.backend->name());
  pool.configure({.limit_bytes = pool.stats().reserved + 1024});
  EXPECT_THROW(Executor(plans.larger, plans.small.arena), OutOfMemory);
  pool.configure({});
  plans.first->run();
  EXPECT_THAT(to_doubles(plans.first->output(0)), ElementsAre(1, 4));
}

TEST(Executor, FindsWhereTheFirstNonFiniteValueArises) {
  Net net;
  const SymbolicTensor x = net.input("x", {2});
  net.graph->scope().layer = "narrow";
  const SymbolicTensor y = ops::cast(ops::multiply(x, 1e5), float16);
  net.graph->scope().layer = "later";
  net.graph->add_output("y", ops::square(y).value());
  const auto executor = net.executor();
  executor->set_feed(0, vector({1e-5f, 0}));
  EXPECT_FALSE(executor->first_non_finite().has_value());
  executor->set_feed(0, vector({0, 1}));
  const std::optional<NonFinite> found = executor->first_non_finite();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->layer, "narrow");
  EXPECT_EQ(found->op, "cast");
  EXPECT_EQ(found->phase, ir::Phase::kForward);
  EXPECT_FALSE(found->is_nan);
  EXPECT_EQ(found->input, "");
  EXPECT_EQ(found->variable, "");
}

TEST(Executor, NamesInputsAndNonFiniteVariablesBesideTheOp) {
  Net net;
  const Variable w(make_variable_state("w", vector({1, 2}), VariableRole::kWeight));
  net.graph->add_output("y", ops::multiply(net.input("x", {2}), w).value());
  const auto executor = net.executor();
  executor->set_feed(0, vector({1, std::numeric_limits<float>::quiet_NaN()}));
  std::optional<NonFinite> found = executor->first_non_finite();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->input, "x");
  EXPECT_EQ(found->variable, "");
  EXPECT_TRUE(found->is_nan);

  executor->set_feed(0, vector({1, 2}));
  EXPECT_FALSE(executor->first_non_finite().has_value());
  w.assign(vector({1, std::numeric_limits<float>::infinity()}));
  found = executor->first_non_finite();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->variable, "w");
  EXPECT_FALSE(found->is_nan);
}

TEST(Executor, RefusesFeedsOfAnotherType) {
  Net net;
  net.graph->add_output("y", ops::square(net.input("x", {2})).value());
  const auto executor = net.executor();
  EXPECT_EQ(message_of<std::invalid_argument>([&] {
              executor->set_feed(0, vector({1, 2, 3}));
            }),
            "[run] expected float32[2] for input 'x'. Received: float32[3].");
}

}  // namespace
}  // namespace demi::runtime
