// Which of cuDNN's engines is used where engines are measured, and that it is remembered.
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <demi/error.h>
#include <demi/ops/conv2d.h>

#include "kernels/backend.h"
#include "kernels/cuda/cudnn/measurement.h"
#include "tests/kernels/cuda/kept_choices.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/environment.h"

namespace demi {
namespace {

using testing::Environment;
using testing::KeptChoices;

TEST(PreferredEngine, IsTheFastestButForTies) {
  using cuda::cudnn::Measurement;
  using cuda::cudnn::preferred;
  const auto choose = [](std::vector<Measurement> list) { return preferred(list); };
  EXPECT_EQ(choose({{3, 0}, {1, 500}, {2, 0}}), 1U);
  EXPECT_EQ(choose({{1, 500}, {1.02F, 10}, {1.2F, 0}}), 1U) << "a tie goes to less workspace";
  EXPECT_EQ(choose({{1.02F, 10}, {1, 10}}), 0U) << "a tie of both goes to the earlier";
  EXPECT_EQ(choose({{1.04F, 0}, {1, 10}}), 1U) << "4 % is no tie";
}

class TunedEngines : public testing::EmulatedGpuTest {
 protected:
  void SetUp() override {
    EmulatedGpuTest::SetUp();
    if (IsSkipped()) return;
    const std::string chosen = choose();
    if (chosen.rfind("cudnn", 0) != 0) GTEST_SKIP() << "NOT TESTED, no cuDNN: " << chosen;
  }

  /// What a new process would choose for a convolution: the kernel's description.
  [[nodiscard]] static std::string choose() {
    const auto backend = make_backend("cuda-emu");
    const Attributes attributes = ops::Conv2DAttributes{};
    const TensorType inputs[] = {{{2, 8, 8, 16}, float16}, {{3, 3, 16, 32}, float16}};
    const TensorType output{{2, 6, 6, 32}, float16};
    return backend->select({"conv2d", attributes, inputs, {&output, 1}}).kernel->description();
  }

  const KeptChoices choices_{"tuned"};
};

TEST_F(TunedEngines, AreKeptUnderEverythingTheyDependOn) {
  ASSERT_EQ(choices_.files().size(), 1U);
  const nlohmann::json kept = KeptChoices::read(choices_.files()[0]);
  const std::string key = kept.at("key");
  for (const char* part : {"cudnn 9", "sm_", "tf32=0 deterministic=1 workspace=33554432",
                           "conv2d n=2 h=8 w=8 ci=16 kh=3 kw=3 co=32", "x=float16"}) {
    EXPECT_NE(key.find(part), std::string::npos) << key;
  }
  EXPECT_GE(kept.at("engine").get<int>(), 0);
}

TEST_F(TunedEngines, AreUsedInsteadOfMeasuringAgain) {
  ASSERT_EQ(choices_.files().size(), 1U);
  nlohmann::json kept = KeptChoices::read(choices_.files()[0]);
  ASSERT_NE(kept.at("engine").get<int>(), 0) << "the test needs another engine than the chosen one";
  kept["engine"] = 0;
  kept["knobs"] = nlohmann::json::array();
  std::ofstream(choices_.files()[0]) << kept;
  EXPECT_EQ(choose().rfind("cudnn: engine 0 ", 0), 0U) << choose();
}

TEST_F(TunedEngines, OfAFileThatIsNoUseAreMeasuredAgainWithAMessage) {
  const std::string chosen = choose();
  nlohmann::json unknown = KeptChoices::read(choices_.files()[0]);
  unknown["engine"] = 1'000'000;
  for (const std::string& content : {std::string("{\"engine\": 3"), unknown.dump()}) {
    std::ofstream(choices_.files()[0]) << content;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(choose(), chosen);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.rfind("[cudnn] ", 0), 0U) << said;
    EXPECT_EQ(choices_.files().size(), 1U);
    EXPECT_NO_THROW((void)KeptChoices::read(choices_.files()[0])) << "the file was not replaced";
  }
}

TEST_F(TunedEngines, AreThoseThatRunWhenTheyAreTimed) {
  const auto fail_after = DEMI_EMULATOR(demi_emulator_fail_call_after);
  constexpr int kNotSupported = 801;
  const std::string best = choose();
  bool another = false;
  for (int calls = 0; calls < 200; ++calls) {
    choices_.clear();
    fail_after(calls, kNotSupported);
    std::string chosen;
    try {
      chosen = choose();
    } catch (const DeviceError& error) {
      // What failed was a call of the runtime, not an engine.
      EXPECT_EQ(std::string(error.what()).find("[cudnn] running"), std::string::npos)
          << error.what();
    }
    fail_after(-1, 0);
    another = another || (!chosen.empty() && chosen != best);
  }
  EXPECT_TRUE(another) << "no engine failed while it was timed";
}

TEST_F(TunedEngines, AreNotWrittenWhereThereIsNoFolder) {
  choices_.clear();
  const Environment none("DEMI_CACHE_DIR", "");
  EXPECT_EQ(choose().rfind("cudnn: engine ", 0), 0U);
  EXPECT_TRUE(choices_.files().empty());
  const Environment unwritable("DEMI_CACHE_DIR", "/proc/demi");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(choose().rfind("cudnn: engine ", 0), 0U);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("not keeping"), std::string::npos);
}

TEST_F(TunedEngines, AreCudnnsFirstSuggestionWithoutMeasuring) {
  choices_.clear();
  const Environment off("DEMI_AUTOTUNE", "0");
  EXPECT_EQ(choose().rfind("cudnn: engine ", 0), 0U);
  EXPECT_TRUE(choices_.files().empty());
}

}  // namespace
}  // namespace demi
