#include <demi/ops/loss_scale.h>

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/run_kernel.h"

namespace demi {
namespace {

using ops::LossScaleAttributes;
using testing::random_tensor;
using testing::run_kernel;

constexpr double kInf = std::numeric_limits<double>::infinity();

bool all_finite(const std::vector<const Tensor*>& values) {
  return run_kernel("all_finite", {}, values)[0].item() != 0;
}

TEST(AllFinite, FindsOneBadElementAnywhereInAnyDtype) {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    const Tensor loss = Tensor::scalar(1.0f);
    const Tensor good = random_tensor({70001}, dtype, 1);
    EXPECT_TRUE(all_finite({&loss, &good}));
    for (const double bad : {kInf, -kInf, std::nan("")}) {
      for (const std::int64_t place : {0, 33333, 65535, 65536, 70000}) {
        std::vector<double> values = testing::to_doubles(good);
        values[static_cast<std::size_t>(place)] = bad;
        const Tensor tensor = Tensor::from(values, {70001}).to(dtype);
        EXPECT_FALSE(all_finite({&loss, &good, &tensor})) << dtype << " " << bad << " " << place;
      }
    }
  }
}

TEST(AllFinite, AcceptsTheLargestNumbersAndEmptyTensors) {
  const Tensor f16 = Tensor::from(std::vector<float>{65504, -65504, 6e-8f}, {3}).to(float16);
  const Tensor f32 = Tensor::full({1}, std::numeric_limits<float>::max(), float32);
  const Tensor f64 = Tensor::full({1}, -std::numeric_limits<double>::max(), float64);
  const Tensor none({0, 4}, float32);
  EXPECT_TRUE(all_finite({&none, &f16, &f32, &f64}));
  EXPECT_TRUE(all_finite({&none}));
}

/// The states of a run of steps, 'f' finite or 's' skipped.
struct LossScale {
  Tensor scale = Tensor::scalar(32768.0f);
  Tensor good = Tensor::scalar(std::int64_t{0});
  Tensor skipped = Tensor::scalar(std::int64_t{0});
  Tensor consecutive = Tensor::scalar(std::int64_t{0});

  void run(const std::string& steps, const LossScaleAttributes& attributes) {
    for (const char step : steps) {
      const Tensor finite = Tensor::scalar(step == 'f');
      auto out = run_kernel("loss_scale_update", attributes,
                            {&scale, &good, &skipped, &consecutive, &finite}, {.threads = 1});
      scale = std::move(out[0]);
      good = std::move(out[1]);
      skipped = std::move(out[2]);
      consecutive = std::move(out[3]);
    }
  }
};

TEST(LossScaleUpdate, DoublesAfterGrowthStepsAndHalvesOnASkip) {
  LossScale s;
  s.run("ff", {.growth_steps = 3});
  EXPECT_EQ(s.scale.item(), 32768);
  EXPECT_EQ(s.good.item(), 2);
  s.run("f", {.growth_steps = 3});
  EXPECT_EQ(s.scale.item(), 65536);
  EXPECT_EQ(s.good.item(), 0);
  s.run("ffsff", {.growth_steps = 3});
  EXPECT_EQ(s.scale.item(), 32768);
  EXPECT_EQ(s.good.item(), 2);
  EXPECT_EQ(s.skipped.item(), 1);
  EXPECT_EQ(s.consecutive.item(), 0);
  s.run("ss", {.growth_steps = 3});
  EXPECT_EQ(s.scale.item(), 8192);
  EXPECT_EQ(s.skipped.item(), 3);
  EXPECT_EQ(s.consecutive.item(), 2);
}

TEST(LossScaleUpdate, StillGrowsWhenGrowthStepsIsLoweredBelowTheCounter) {
  LossScale s;
  s.run("fffff", {.growth_steps = 100});
  s.run("f", {.growth_steps = 3});
  EXPECT_EQ(s.scale.item(), 65536);
}

TEST(LossScaleUpdate, StaysWithinItsBounds) {
  LossScale s;
  s.run(std::string(200, 's'), {});
  EXPECT_EQ(s.scale.item(), 0x1p-14);
  s.run(std::string(200, 'f'), {.growth_steps = 1});
  EXPECT_EQ(s.scale.item(), 0x1p24);
}

TEST(LossScaleUpdate, KeepsAFixedScaleButCountsSkips) {
  LossScale s;
  s.run("fffsfss", {.growth_steps = 1, .dynamic = false});
  EXPECT_EQ(s.scale.item(), 32768);
  EXPECT_EQ(s.skipped.item(), 3);
  EXPECT_EQ(s.consecutive.item(), 2);
}

}  // namespace
}  // namespace demi
