#include "benchmarks/compare_precision/comparison.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace demi::benchmarks {
namespace {

nlohmann::json run(const std::string& policy, double accuracy, double rate, double activations) {
  return {{"policy", policy},
          {"test_accuracy", accuracy},
          {"test_loss", 0.5},
          {"images_per_second", rate},
          {"step_ms_median", 1e3 / rate},
          {"first_step_seconds", 0.25},
          {"peak_rss_bytes", 123456789},
          {"planned_bytes",
           {{"activations", activations},
            {"weights", 1e6},
            {"compute_copies", policy == "float32" ? 0 : 5e5},
            {"gradients", 1e6},
            {"optimizer", 2e6},
            {"workspace", 0},
            {"total", activations + 4e6}}},
          {"skipped_steps", policy == "float32" ? 0 : 2},
          {"loss_scale", policy == "float32" ? 1 : 32768}};
}

nlohmann::json four_runs() {
  return {run("float32", 0.90, 100, 8e6), run("mixed_float16", 0.91, 200, 4e6),
          run("float32", 0.92, 300, 8e6), run("mixed_float16", 0.92, 200, 4e6)};
}

TEST(Comparison, SummarizesRunsByPolicy) {
  const nlohmann::json summary = summarize_runs(four_runs(), {"float32", "mixed_float16"});
  EXPECT_NEAR(summary["float32"]["test_accuracy"]["mean"].get<double>(), 0.91, 1e-12);
  EXPECT_NEAR(summary["float32"]["images_per_second"]["deviation"].get<double>(), 141.421, 1e-3);
  EXPECT_DOUBLE_EQ(summary["mixed_float16"]["planned_bytes"]["activations"]["ratio"].get<double>(),
                   0.5);
  EXPECT_FALSE(summary["float32"]["images_per_second"].contains("ratio"));
  EXPECT_FALSE(summary["float32"].contains("difference"));
  // Differences 0.01 and 0: mean 0.005, deviation 0.00707, t(1) = 12.706.
  const nlohmann::json& difference = summary["mixed_float16"]["difference"];
  EXPECT_NEAR(difference["mean"].get<double>(), 0.005, 1e-12);
  EXPECT_NEAR(difference["half_width"].get<double>(), 0.06353, 1e-5);
}

TEST(Comparison, PrintsATable) {
  const std::vector<std::string> policies = {"float32", "mixed_float16"};
  EXPECT_EQ("\n" + format_table(summarize_runs(four_runs(), policies), policies), R"(
                                  float32            mixed_float16  ratio
test accuracy, %             91.00 ± 1.41             91.50 ± 0.71
  difference [95 %], points                +0.500 [-5.853, +6.853]
test loss                          0.5000                   0.5000  1.000
images/s                        200 ± 141                      200  1.000
ms/step, median               6.67 ± 4.71                     5.00  0.750
first step after, s                  0.25                     0.25  1.000
planned activations, MB              8.00                     4.00  0.500
planned weights, MB                  1.00                     1.00  1.000
planned 16-bit copies, MB            0.00                     0.50
planned gradients, MB                1.00                     1.00  1.000
planned optimizer, MB                2.00                     2.00  1.000
planned workspace, MB                0.00                     0.00
planned total, MB                   12.00                     8.00  0.667
measured peak RSS, MB               123.5                    123.5  1.000
skipped steps                         0.0                      2.0
final loss scale                        1                    32768
)");
}

TEST(Comparison, HandlesOneSeedAndMissingNumbers) {
  nlohmann::json runs = {run("float32", 0.90, 100, 8e6), run("mixed_float16", 0.91, 200, 4e6)};
  runs[1]["test_loss"] = nullptr;
  const std::vector<std::string> policies = {"float32", "mixed_float16"};
  const std::string table = format_table(summarize_runs(runs, policies), policies);
  EXPECT_NE(table.find("+1.000 (one seed)"), std::string::npos) << table;
  EXPECT_NE(table.find("nan"), std::string::npos) << table;
}

}  // namespace
}  // namespace demi::benchmarks
