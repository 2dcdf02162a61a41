#include "src/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/error.h>
#include <demi/ops/cast.h>
#include <demi/variable.h>

#include "src/ir/emit.h"
#include "src/ir/op_registry.h"
#include "tests/support/message_of.h"

namespace demi::ir {
namespace {

using demi::testing::message_of;

const OpDef& op(const char* name) {
  return OpRegistry::instance().find(name);
}

TEST(Graph, PrintsOneNodeALine) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2, 3}, float32}));
  graph->scope().layer = "dense";
  const SymbolicTensor y = ops::cast(x, float16);
  graph->add_output("y", y.value());
  EXPECT_EQ(to_string(*graph),
            "%0 = input(x) : float32[2, 3]\n"
            "%1 = cast(%0) {dtype=float16} : float16[2, 3]  # dense forward\n"
            "return y = %1\n");
}

TEST(Graph, ReadsAVariableOnceAndBeforeEverythingElse) {
  const auto graph = Graph::create();
  const ValueId x = graph->add_input("x", {{2}, float32});
  const auto state = make_variable_state("w", Tensor({2}, float32), VariableRole::kWeight);
  const ValueId first = graph->read_variable(state);
  EXPECT_EQ(graph->read_variable(state), first);
  EXPECT_EQ(graph->node(graph->order().front()).variable, state);
  EXPECT_EQ(graph->variable_of(first), state);
  EXPECT_EQ(graph->variable_of(x), nullptr);
}

TEST(Graph, ErasesWhatNothingDependsOn) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const SymbolicTensor kept = ops::cast(x, float16);
  (void)ops::cast(kept, float64);
  graph->add_output("y", kept.value());
  graph->erase_dead();
  EXPECT_EQ(graph->order().size(), 2u);
  verify(*graph);
}

TEST(Graph, InsertsBeforeTheInsertionPoint) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const SymbolicTensor last = ops::cast(x, float16);
  graph->set_insertion_point(graph->value(last.value()).producer);
  const SymbolicTensor between = ops::cast(x, float64);
  EXPECT_EQ(graph->order()[1], graph->value(between.value()).producer);
}

TEST(Graph, FollowsRewritesOfUses) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const SymbolicTensor a = ops::cast(x, float16);
  const SymbolicTensor b = ops::cast(a, float64);
  graph->add_output("y", b.value());
  graph->replace_uses(a.value(), x.value());
  EXPECT_EQ(graph->node(graph->value(b.value()).producer).inputs[0], x.value());
  graph->replace_uses(b.value(), x.value());
  EXPECT_EQ(graph->outputs()[0].value, x.value());
}

TEST(Graph, KeepsNodesAndTypesInPlaceWhileItGrows) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2, 3}, float32}));
  const Shape& shape = x.shape();
  const Node& node = graph->producer(x.value());
  SymbolicTensor y = x;
  for (int i = 0; i < 1000; ++i) y = ops::cast(y, i % 2 == 0 ? float16 : float32);
  EXPECT_EQ(shape, (Shape{2, 3}));
  EXPECT_EQ(&shape, &x.shape());
  EXPECT_EQ(&node, &graph->producer(x.value()));
}

TEST(Verify, RefusesAValueThatIsReadBeforeItIsProduced) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const SymbolicTensor a = ops::cast(x, float16);
  (void)ops::cast(a, float64);
  graph->move(graph->value(a.value()).producer, -1);
  EXPECT_THAT(message_of<InternalError>([&] { verify(*graph); }),
              ::testing::HasSubstr("%1 is not produced yet"));
}

TEST(Verify, RefusesATypeThatInferDoesNotGive) {
  const auto graph = Graph::create();
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2}, float32}));
  const SymbolicTensor a = ops::cast(x, float16);
  graph->set_type(a.value(), {{2}, float64});
  EXPECT_THAT(message_of<InternalError>([&] { verify(*graph); }),
              ::testing::HasSubstr("output 0 is float64[2], infer says float16[2]"));
}

TEST(Emit, RefusesValuesOfTwoGraphsAndAbsentOnes) {
  const auto one = Graph::create(), two = Graph::create();
  const SymbolicTensor a = one->tensor(one->add_input("a", {{2}, float32}));
  const SymbolicTensor b = two->tensor(two->add_input("b", {{2}, float32}));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                emit("cast", {a, b});
              }),
              ::testing::HasSubstr("[cast] expected inputs of one graph"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { emit("cast", {SymbolicTensor()}); }),
              ::testing::HasSubstr("Received: an empty SymbolicTensor"));
}

TEST(Variable, IsReadInTheGraphBeingTraced) {
  const Variable w(make_variable_state("w", Tensor({2}, float32), VariableRole::kWeight));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)SymbolicTensor(w); }),
              ::testing::HasSubstr("[variable w] expected to be used inside a layer"));
  const auto graph = Graph::create();
  const TraceScope scope(graph);
  EXPECT_EQ(SymbolicTensor(w).graph(), graph);
}

TEST(OpRegistry, KnowsItsOpsByName) {
  EXPECT_EQ(op("cast").name, "cast");
  EXPECT_THROW((void)op("no_such_op"), InternalError);
}

}  // namespace
}  // namespace demi::ir
