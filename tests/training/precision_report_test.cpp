#include <demi/precision.h>

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <demi/demi.h>

#include "models/mnist_cnn.h"
#include "tests/support/message_of.h"
#include "tests/support/op_harness.h"

namespace demi {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::message_of;

class PrecisionReport : public ::testing::Test {
 protected:
  void TearDown() override { set_global_policy("float32"); }

  static Model compiled(const std::string& policy, const std::string& own_policy = "") {
    set_global_policy(policy);
    reset_layer_names();
    Conv2DOptions wide{.filters = 8, .kernel_size = 3, .activation = "relu"};
    if (!own_policy.empty()) wide.dtype = own_policy;
    Sequential model({Input({8, 8, 3}), Conv2D(wide),
                      Conv2D({.filters = 16, .kernel_size = 3, .use_bias = false}), Flatten(),
                      Dense({.units = 10, .activation = "softmax"})});
    model.compile({.optimizer = "adam", .loss = "sparse_categorical_crossentropy"});
    return model;
  }

  static const OpPrecision& find(const PrecisionPlan& plan, const std::string& layer,
                                 const std::string& op, const std::string& phase) {
    const auto found = std::find_if(plan.ops.begin(), plan.ops.end(), [&](const OpPrecision& o) {
      return o.layer == layer && o.op.rfind(op, 0) == 0 && o.phase == phase;
    });
    if (found == plan.ops.end())
      throw std::out_of_range(layer + ": " + op + "\n" + to_string(plan));
    return *found;
  }

  /// Of a GPU that is not there; skipped where no plugin can plan for it.
  static PrecisionPlan planned(const Model& model, const std::string& profile) {
    return model.precision_report(16, {.device_profile = profile});
  }
};

/// The same for GPUs that need not be there.
class PrecisionReportForAGpu : public PrecisionReport {
 protected:
  void SetUp() override {
    try {
      const PrecisionPlan plan = planned(compiled("float32"), "h200");
      if (find(plan, "conv2d_1", "conv2d", "forward").kernel.rfind("cudnn", 0) != 0) {
        GTEST_SKIP() << "NOT TESTED, no cuDNN";
      }
    } catch (const DeviceError& error) {
      GTEST_SKIP() << "NOT TESTED, no CUDA plugin: " << error.what();
    }
  }
};

TEST_F(PrecisionReport, OfAMixedModelOnTheCpu) {
  const PrecisionPlan plan = compiled("mixed_float16").precision_report(16);
  EXPECT_EQ(plan.device, "cpu");
  EXPECT_EQ(plan.policy, "mixed_float16");
  EXPECT_EQ(plan.batch_size, 16);
  EXPECT_EQ(plan.narrow, float16);
  const OpPrecision& conv = find(plan, "conv2d_1", "conv2d", "forward");
  EXPECT_EQ(conv.requested, float16);
  EXPECT_EQ(conv.computed, float16);
  EXPECT_EQ(conv.stored, float16);
  EXPECT_EQ(conv.accumulation, float32);
  EXPECT_TRUE(conv.multiplies);
  EXPECT_EQ(conv.uses_tensor_cores, false);
  EXPECT_EQ(conv.without_tensor_cores, "the CPU has none");
  EXPECT_EQ(conv.fallback, "");
  EXPECT_FALSE(conv.seconds.has_value());
  EXPECT_EQ(find(plan, "conv2d_1", "conv2d_backward_filter", "backward").stored, float32);
  EXPECT_THAT(plan.hints, Contains(HasSubstr("float16 saves memory on this device")));
}

TEST_F(PrecisionReport, NamesTheLossAsFloat32ByRuleWithItsBytes) {
  const PrecisionPlan plan = compiled("mixed_float16").precision_report(16);
  const auto found = std::find_if(plan.ops.begin(), plan.ops.end(), [](const OpPrecision& op) {
    return op.op.find("cross_entropy") != std::string::npos && op.phase == "forward";
  });
  ASSERT_NE(found, plan.ops.end()) << to_string(plan);
  EXPECT_EQ(found->computed, float32);
  EXPECT_THAT(found->fallback, HasSubstr("float32 by rule"));
  EXPECT_GE(found->extra_bytes, 16u * 10 * 2);
}

TEST_F(PrecisionReport, NamesALayerWithAPolicyOfItsOwn) {
  const PrecisionPlan plan = compiled("mixed_float16", "float32").precision_report(16);
  const OpPrecision& conv = find(plan, "conv2d", "conv2d", "forward");
  EXPECT_EQ(conv.requested, float32);
  EXPECT_EQ(conv.computed, float32);
  EXPECT_EQ(conv.fallback, "the layer's own policy computes in float32");
  // x [16, 8, 8, 3], the filter, the bias and y [16, 6, 6, 8], two bytes each more than in 16 bits.
  EXPECT_EQ(conv.extra_bytes, 2u * (16 * 64 * 3 + 9 * 3 * 8 + 8 + 16 * 36 * 8));
  EXPECT_THAT(plan.hints, Contains(HasSubstr("'conv2d' moves")));
}

TEST_F(PrecisionReport, OfFloat32HasNoFallbacks) {
  const PrecisionPlan plan = compiled("float32").precision_report(16);
  EXPECT_EQ(plan.narrow, float32);
  for (const OpPrecision& op : plan.ops) EXPECT_EQ(op.fallback, "") << op.op;
}

TEST_F(PrecisionReport, PlansUnderAnotherPolicy) {
  const PrecisionPlan plan = compiled("float32").precision_report(16, {.policy = "mixed_bfloat16"});
  EXPECT_EQ(plan.policy, "mixed_bfloat16");
  EXPECT_EQ(find(plan, "conv2d_1", "conv2d", "forward").computed, bfloat16);
}

TEST_F(PrecisionReport, RefusesWhatMemoryPlanRefuses) {
  const Model model = compiled("float32");
  EXPECT_EQ(message_of<std::invalid_argument>([&] { (void)model.precision_report(0); }),
            "[precision_report] expected a batch size >= 1. Received: 0.");
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { (void)model.precision_report(1, {.policy = "mixed_floot16"}); }),
              HasSubstr("mixed_floot16"));
}

void expect_a_hundred_columns(const PrecisionPlan& plan) {
  const std::string text = to_string(plan);
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
  }
}

TEST_F(PrecisionReport, IsATableOfAtMostAHundredColumns) {
  const PrecisionPlan plan = compiled("mixed_float16").precision_report(16);
  const std::string text = to_string(plan);
  EXPECT_THAT(text, HasSubstr("Precision of one step under mixed_float16, batch 16, on cpu\n"));
  EXPECT_THAT(text, HasSubstr("conv2d_1: conv2d "));
  EXPECT_THAT(text, HasSubstr("In float32 although the model computes in float16"));
  EXPECT_THAT(text, HasSubstr("Hints:\n"));
  expect_a_hundred_columns(plan);
}

TEST_F(PrecisionReportForAGpu, IsATableOfAtMostAHundredColumns) {
  for (const char* policy : {"float32", "mixed_float16", "mixed_bfloat16"}) {
    for (const char* profile : {"t4", "rtx4090", "h200"}) {
      expect_a_hundred_columns(planned(compiled(policy), profile));
    }
  }
}

TEST_F(PrecisionReportForAGpu, NamesTheOwnKernelThatUsesNoTensorCores) {
  const PrecisionPlan plan = planned(compiled("mixed_float16"), "h200");
  EXPECT_EQ(find(plan, "dense", "matmul", "forward").without_tensor_cores,
            "'few_columns', the first kernel that takes it, uses none");
}

TEST_F(PrecisionReportForAGpu, UsesTensorCoresFor16BitsOnly) {
  const PrecisionPlan mixed = planned(compiled("mixed_float16"), "h200");
  const OpPrecision& fast = find(mixed, "conv2d_1", "conv2d", "forward");
  EXPECT_EQ(fast.uses_tensor_cores, true) << to_string(mixed);
  // cuBLASLt has no device to choose an algorithm on.
  EXPECT_TRUE(std::any_of(mixed.ops.begin(), mixed.ops.end(), [](const OpPrecision& op) {
    return op.kernel == "cublaslt" && !op.uses_tensor_cores;
  }));
  EXPECT_EQ(fast.without_tensor_cores, "");
  EXPECT_EQ(fast.kernel.rfind("cudnn: engine ", 0), 0u) << fast.kernel;
  const PrecisionPlan wide = planned(compiled("float32"), "h200");
  const OpPrecision& slow = find(wide, "conv2d_1", "conv2d", "forward");
  EXPECT_EQ(slow.uses_tensor_cores, false);
  EXPECT_EQ(slow.without_tensor_cores, "float32, and TF32 is not allowed");
  EXPECT_THAT(wide.hints, Contains(HasSubstr("16 times that of float32")));
}

TEST_F(PrecisionReportForAGpu, EstimatesFromPeaksOfTheDevice) {
  const PrecisionPlan plan = planned(compiled("float32"), "h200");
  const OpPrecision& conv = find(plan, "conv2d_1", "conv2d", "forward");
  // x [16, 6, 6, 8], the filter and y [16, 4, 4, 16] at 4.9 TB/s take longer than 295 thousand
  // multiply-adds at 66.9 TFLOP/s.
  const double bytes = 4.0 * (16 * 36 * 8 + 9 * 8 * 16 + 16 * 16 * 16);
  const double flops = 2.0 * 16 * 16 * 9 * 8 * 16;
  const double bandwidth = 2 * 3.201e9 * 6144 / 8;
  const double peak = 2.0 * 128 * 132 * 1.98e9;
  ASSERT_TRUE(conv.seconds.has_value());
  EXPECT_DOUBLE_EQ(*conv.seconds, std::max(bytes / bandwidth, flops / peak));
}

TEST_F(PrecisionReportForAGpu, HintsAtChannelsThatAreNoMultiplesOfEight) {
  const PrecisionPlan plan = planned(compiled("mixed_float16"), "h200");
  EXPECT_THAT(plan.hints, Contains(HasSubstr("'conv2d' has 3 input channels: tensor cores want "
                                             "multiples of 8")));
  EXPECT_THAT(plan.hints, Contains(HasSubstr("'dense' has 10 columns")));
}

TEST_F(PrecisionReportForAGpu, SaysThatAnOlderGpuHasNoTensorCoresForBFloat16) {
  const PrecisionPlan plan = planned(compiled("mixed_bfloat16"), "t4");
  EXPECT_THAT(plan.hints,
              Contains("this GPU (compute capability 7.5) has no tensor cores for bfloat16: prefer "
                       "mixed_float16"));
  EXPECT_EQ(find(plan, "conv2d_1", "conv2d", "forward").without_tensor_cores,
            "this GPU has none for bfloat16");
}

}  // namespace
}  // namespace demi
