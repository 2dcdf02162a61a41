#include <demi/ops/cast.h>
#include <demi/ops/matmul.h>

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

#include "src/ir/graph.h"
#include "src/passes/passes.h"
#include "tests/support/message_of.h"

namespace demi {
namespace {

using testing::message_of;

SymbolicTensor input(DType dtype, const Shape& shape) {
  const auto graph = ir::Graph::create();
  return graph->tensor(graph->add_input("x", {shape, dtype}));
}

TEST(Cast, KeepsTheShapeAndGivesTheDtype) {
  const SymbolicTensor y = ops::cast(input(float32, {Shape::kUnknown, 3}), float16);
  EXPECT_EQ(y.dtype(), float16);
  EXPECT_EQ(y.shape(), (Shape{Shape::kUnknown, 3}));
}

TEST(Cast, IsKeptWhereThePolicyMayYetNarrowItsInput) {
  const auto graph = ir::Graph::create();
  graph->scope().compute_dtype = float16;
  const SymbolicTensor x = graph->tensor(graph->add_input("x", {{2, 2}, float32}));
  const SymbolicTensor y = ops::cast(ops::matmul(x, x), float32);
  graph->add_output("y", y.value());
  passes::autocast(*graph);
  EXPECT_EQ(graph->type(graph->producer(y.value()).inputs[0]).dtype, float16);
  EXPECT_EQ(y.dtype(), float32);
}

TEST(Rescale, GivesAFloatingType) {
  EXPECT_EQ(ops::rescale(input(uint8, {2}), 1 / 255.0).dtype(), float32);
  EXPECT_EQ(ops::rescale(input(bfloat16, {2}), 2).dtype(), bfloat16);
}

TEST(Rescale, RefusesBoolAndNonFiniteFactors) {
  using std::invalid_argument;
  EXPECT_EQ(message_of<invalid_argument>([] { (void)ops::rescale(input(boolean, {2}), 1); }),
            "[rescale] expected one value of a number type. Received: bool[2].");
  EXPECT_EQ(message_of<invalid_argument>([] { (void)ops::rescale(input(float32, {2}), NAN); }),
            "[rescale] expected a finite scale and offset. Received: nan and 0.");
}

}  // namespace
}  // namespace demi
