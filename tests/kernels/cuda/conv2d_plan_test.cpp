// cuDNN plans the convolutions of the models for GPUs that need not exist.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <demi/dtype_policy.h>
#include <demi/error.h>
#include <demi/ops/conv2d.h>

#include "kernels/backend.h"
#include "models/mnist_cnn.h"
#include "models/resnet20.h"
#include "models/vgg8.h"
#include "src/ir/graph.h"
#include "src/passes/passes.h"
#include "src/training/model_impl.h"
#include "src/training/trace.h"

namespace demi {
namespace {

constexpr const char* kProfiles[] = {"t4", "a100", "rtx4090", "h100", "h200", "b200"};

/// A node of a graph, without the graph.
struct Convolution {
  std::string op;
  Attributes attributes;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;

  [[nodiscard]] std::string to_string() const {
    std::string text = op + "(" + attributes.to_string() + ")";
    for (const TensorType& type : inputs) text += " " + type.to_string();
    text += " ->";
    for (const TensorType& type : outputs) text += " " + type.to_string();
    return text;
  }
  [[nodiscard]] KernelSelection select(Backend& backend) const {
    return backend.select({op, attributes, inputs, outputs});
  }
};

/// By their printed form, so that every shape is there once.
using Convolutions = std::map<std::string, Convolution>;

void add_convolutions(ir::Graph& graph, Convolutions& found) {
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.op->name.rfind("conv2d", 0) != 0) continue;
    Convolution convolution{node.op->name, node.attributes, {}, {}};
    for (const ir::ValueId value : node.inputs) convolution.inputs.push_back(graph.type(value));
    for (const ir::ValueId value : node.outputs) convolution.outputs.push_back(graph.type(value));
    found.emplace(convolution.to_string(), convolution);
  }
}

/// The convolutions of a training step, forward and backward, as the passes leave them.
void add_training_step(const LayerGraph& layers, std::int64_t batch,
                       const Capabilities& capabilities, Convolutions& found) {
  const auto graph = ir::Graph::create();
  const ir::TraceScope scope(graph);
  std::vector<SymbolicTensor> inputs;
  for (const LayerGraph::Input& input : layers.inputs) {
    TensorType type = layers.type(input.value);
    type.shape.set(0, batch);
    inputs.push_back(graph->tensor(graph->add_input(input.name, type)));
  }
  const TracedModel traced = trace_model(layers, inputs, {.training = true});
  passes::autocast(*graph);
  std::vector<passes::Seed> seeds;
  for (const SymbolicTensor& output : traced.outputs) {
    const TensorType type{output.shape(), output.dtype()};
    seeds.push_back({output, graph->tensor(graph->add_input("gradient", type))});
  }
  std::vector<SymbolicTensor> weights;
  for (const Variable& variable : layers.trainable_variables()) weights.push_back(variable);
  for (const SymbolicTensor& gradient : passes::differentiate(*graph, seeds, weights)) {
    if (gradient) graph->add_output("gradient", gradient.value());
  }
  passes::simplify(*graph);
  passes::fuse(*graph, capabilities);
  passes::simplify(*graph);
  add_convolutions(*graph, found);
}

/// Every model that has convolutions.
Convolutions convolutions_of_the_models(const std::string& policy,
                                        const Capabilities& capabilities) {
  const DTypePolicy before = global_policy();
  set_global_policy(policy);
  const Model list[] = {models::mnist_cnn(), models::resnet20({28, 28, 1}),
                        models::resnet20({32, 32, 3}), models::vgg8()};
  set_global_policy(before);
  Convolutions found;
  for (const Model& model : list) {
    for (const std::int64_t batch : {1, 32, 256}) {
      add_training_step(model.impl().graph(), batch, capabilities, found);
    }
  }
  return found;
}

Convolution plain(DType dtype, Shape x = {2, 8, 8, 16}) {
  const std::int64_t batch = x[0];
  return {"conv2d",
          ops::Conv2DAttributes{},
          {{std::move(x), dtype}, {{3, 3, 16, 32}, dtype}},
          {{{batch, 6, 6, 32}, dtype}}};
}

std::string refusals_of(const KernelSelection& selection) {
  std::string text;
  for (const KernelSelection::Refusal& refusal : selection.refusals) {
    text += "\n  " + refusal.candidate + ": " + refusal.reason;
  }
  return text;
}

/// Skips the tests where no cuDNN is installed, or no plugin is built that could ask it.
class Conv2DPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      const auto backend = make_planning_backend("h200");
      const KernelSelection selection = plain(float32).select(*backend);
      ASSERT_NE(selection.kernel, nullptr) << refusals_of(selection);
      const std::string refusals = refusals_of(selection);
      if (refusals.find("CUDNN_STATUS_NOT_INITIALIZED") != std::string::npos) {
        GTEST_SKIP() << "NOT TESTED, no cuDNN:" << refusals;
      }
    } catch (const DeviceError& error) {
      GTEST_SKIP() << "NOT TESTED, no CUDA plugin: " << error.what();
    }
  }
};

class Conv2DPlanOn : public Conv2DPlan, public ::testing::WithParamInterface<const char*> {};

TEST_P(Conv2DPlanOn, IsCudnnsForEveryModel) {
  const auto backend = make_planning_backend(GetParam());
  const bool has_bfloat16 = std::string(GetParam()) != "t4";
  std::size_t count = 0;
  for (const char* policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
    for (const auto& [text, convolution] :
         convolutions_of_the_models(policy, backend->capabilities())) {
      const KernelSelection selection = convolution.select(*backend);
      ASSERT_NE(selection.kernel, nullptr) << text << refusals_of(selection);
      if (convolution.inputs[0].dtype == bfloat16 && !has_bfloat16) {
        EXPECT_EQ(selection.kernel->name(), "direct");
        EXPECT_EQ(selection.refusals[0].reason,
                  "bfloat16 needs compute capability 8.0; Tesla T4 has 7.5");
      } else {
        EXPECT_EQ(selection.kernel->name(), "cudnn") << text << refusals_of(selection);
      }
      ++count;
    }
  }
  // 5 of mnist_cnn, 23 of each resnet20 and 17 of vgg8, in 3 dtypes at 3 batch sizes.
  EXPECT_GE(count, 9U * (5 + 23 + 23 + 17));
}

INSTANTIATE_TEST_SUITE_P(Profiles, Conv2DPlanOn, ::testing::ValuesIn(kProfiles),
                         [](const auto& profile) { return std::string(profile.param); });

TEST_F(Conv2DPlan, UsesTensorCoresFor16BitsAndNotFor32) {
  for (const char* profile : kProfiles) {
    const auto backend = make_planning_backend(profile);
    const std::string half = plain(float16).select(*backend).kernel->description();
    EXPECT_NE(half.find("(tensor cores"), std::string::npos) << profile << ": " << half;
    const std::string full = plain(float32).select(*backend).kernel->description();
    EXPECT_NE(full.find("(no tensor cores"), std::string::npos) << profile << ": " << full;
    EXPECT_EQ(full.rfind("cudnn: engine ", 0), 0u) << full;
    EXPECT_NE(full.find("1 call of cuDNN, 1 own launches"), std::string::npos) << full;
  }
}

TEST_F(Conv2DPlan, IsOurOwnWhereCudnnIsNotAsked) {
  const auto backend = make_planning_backend("h200");
  const KernelSelection wide = plain(float64).select(*backend);
  EXPECT_EQ(wide.kernel->name(), "direct");
  EXPECT_EQ(wide.refusals[0].reason,
            "cuDNN's convolutions are of float32, float16 or bfloat16, the same for all operands");
  const KernelSelection empty = plain(float16, {0, 8, 8, 16}).select(*backend);
  EXPECT_EQ(empty.kernel->name(), "direct");
  EXPECT_EQ(empty.refusals[0].reason, "the batch is empty");
}

TEST_F(Conv2DPlan, FollowsTheFilterIntoCudnnsLayoutOnlyWhereItDiffers) {
  const auto backend = make_planning_backend("h200");
  Convolution pointwise = plain(float16);
  pointwise.inputs[1].shape = {1, 1, 16, 1};
  pointwise.outputs[0].shape = {2, 8, 8, 1};
  const auto kernel = pointwise.select(*backend).kernel;
  EXPECT_NE(kernel->description().find(", 0 own launches"), std::string::npos)
      << kernel->description();
}

}  // namespace
}  // namespace demi
