#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/ops/binary.h>
#include <demi/ops/cast.h>
#include <demi/ops/matmul.h>
#include <demi/ops/movement.h>
#include <demi/ops/unary.h>
#include <demi/variable.h>

#include "src/plan/plan.h"
#include "tests/support/message_of.h"

namespace demi::plan {
namespace {

using demi::testing::message_of;

struct Net {
  std::shared_ptr<ir::Graph> graph = ir::Graph::create();
  ir::TraceScope trace{graph};
  std::shared_ptr<Backend> backend = make_cpu_backend(1);

  SymbolicTensor input(const std::string& name, const Shape& shape, DType dtype = float32) {
    return graph->tensor(graph->add_input(name, {shape, dtype}));
  }
  std::shared_ptr<const Plan> plan(const SymbolicTensor& output) {
    graph->add_output("y", output.value());
    return make_plan(graph, *backend);
  }
};

TEST(MakePlan, ChainsOfElementwiseOpsRunInOneBuffer) {
  Net net;
  const SymbolicTensor x = net.input("x", {64, 64});
  const auto plan = net.plan(ops::relu(ops::negative(ops::square(x))));
  EXPECT_EQ(plan->steps.size(), 3u);
  EXPECT_EQ(plan->buffers.size(), 1u) << to_string(*plan);
  EXPECT_EQ(plan->buffer_bytes, 64u * 64 * 4);
}

TEST(MakePlan, NeverWritesIntoFeedsWeightsOrValuesStillNeeded) {
  Net net;
  const SymbolicTensor x = net.input("x", {64});
  const SymbolicTensor a = ops::square(x);
  const SymbolicTensor b = ops::negative(a);
  const auto plan = net.plan(ops::add(a, b));  // b may not overwrite a
  for (const Step& step : plan->steps) {
    for (const Location& output : step.outputs) {
      EXPECT_EQ(output.kind, Location::Kind::kArena);
    }
  }
  EXPECT_NE(plan->steps[0].outputs[0].where, plan->steps[1].outputs[0].where);
}

TEST(MakePlan, ReshapesShareTheBytesOfTheirInput) {
  Net net;
  const SymbolicTensor x = net.input("x", {8, 8});
  const auto plan = net.plan(ops::negative(ops::reshape(ops::square(x), {64})));
  EXPECT_EQ(plan->steps.size(), 2u);
  EXPECT_EQ(plan->buffers.size(), 1u) << to_string(*plan);
}

TEST(MakePlan, AViewOfAFeedIsTheFeed) {
  Net net;
  const SymbolicTensor x = net.input("x", {8, 8});
  const auto plan = net.plan(ops::square(ops::reshape(x, {64})));
  EXPECT_EQ(plan->steps[0].inputs[0].kind, Location::Kind::kFeed);
}

TEST(MakePlan, KeepsResultsToTheEnd) {
  Net net;
  const SymbolicTensor x = net.input("x", {64});
  const SymbolicTensor early = ops::square(x);
  net.graph->add_output("early", early.value());
  const auto plan = net.plan(ops::square(ops::negative(early)));
  ASSERT_EQ(plan->outputs.size(), 2u);
  EXPECT_NE(plan->outputs[0].location.where, plan->outputs[1].location.where);
  EXPECT_EQ(plan->buffers[0].last_step, static_cast<int>(plan->steps.size()));
}

TEST(MakePlan, CountsWeightsCastToTheComputeDtypeAsCopies) {
  Net net;
  const Variable w(make_variable_state("w", Tensor({32, 32}, float32), VariableRole::kWeight));
  const SymbolicTensor x = net.input("x", {4, 32}, float16);
  const auto plan = net.plan(ops::matmul(x, ops::cast(w, float16)));
  EXPECT_EQ(plan->memory().compute_copies, 32u * 32 * 2) << to_string(*plan);
  EXPECT_EQ(plan->variables.size(), 1u);
}

TEST(MakePlan, RefusalsNameOpTypesAndEveryCandidate) {
  /// A backend that refuses everything.
  class Refusing final : public Backend {
   public:
    [[nodiscard]] std::string name() const override { return "refusing"; }
    [[nodiscard]] Capabilities capabilities() const override { return {}; }
    [[nodiscard]] DeviceMemoryInfo memory_info() const override { return {}; }
    [[nodiscard]] std::shared_ptr<DeviceMemory> allocate(std::size_t bytes,
                                                         const std::string&) override {
      return allocate_host_memory(bytes);
    }
    [[nodiscard]] std::unique_ptr<InputSet> allocate_inputs(const std::vector<std::size_t>&,
                                                            const Allocator&) override {
      return nullptr;
    }
    [[nodiscard]] std::unique_ptr<Readback> make_readback(
        std::shared_ptr<const DeviceMemory>) override {
      return nullptr;
    }
    [[nodiscard]] KernelSelection select(const KernelRequest&) override {
      return {nullptr, {{"fast", "unsupported dtype"}, {"general", "no such device"}}};
    }
    [[nodiscard]] std::unique_ptr<LaunchSequence> sequence(std::vector<Launch>) override {
      return nullptr;
    }
    void synchronize() override {}
  };
  Net net;
  const SymbolicTensor x = net.input("x", {2}, float16);
  net.graph->scope().layer = "act";
  net.graph->add_output("y", ops::relu(x).value());
  Refusing backend;
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)make_plan(net.graph, backend); }),
            "[relu] expected types that a kernel of refusing supports. Received: float16[2] -> "
            "float16[2] {} in layer 'act'. fast: unsupported dtype. general: no such device.");
}

}  // namespace
}  // namespace demi::plan
