// compare_precision: trains one network under several dtype policies and compares what comes out.
//
// Every policy trains from the same seeds; the runs are interleaved seed by seed, each in a process
// of its own, so that drifts of the machine's speed hit all policies alike.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <demi/demi.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "benchmarks/compare_precision/comparison.h"
#include "benchmarks/compare_precision/isolated_run.h"
#include "benchmarks/compare_precision/report/details.h"
#include "benchmarks/compare_precision/report/html_report.h"
#include "models/command_line.h"
#include "models/output_file.h"
#include "models/training_run.h"

namespace {

using namespace demi::models;

struct Options {
  std::string model = "mnist_cnn";
  std::vector<std::string> policies = {"float32", "mixed_float16"};
  int seeds = 1;
  std::string data;
  std::string json;
  std::string html;
  RunOptions run{.epochs = 1, .verbose = 0};
};

void add_options(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  add_model_option(app, options.model);
  app.add_option("--policies", options.policies, "dtype policies, the first is the base of ratios")
      ->delimiter(',')
      ->check(CLI::Validator(check_policy, "POLICY"));
  app.add_option("--seeds", options.seeds, "runs of each policy")->check(CLI::Range(1, 10'000));
  app.add_option("--seed", options.run.seed, "the first seed");
  app.add_option("--epochs", options.run.epochs, "times to go through the training data")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--steps", options.run.steps, "stop each run after so many steps; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch-size", options.run.batch_size, "images per step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--learning-rate", options.run.learning_rate, "of Adam")
      ->check(CLI::PositiveNumber);
  app.add_option("--device", options.run.device, "auto, cpu or cuda:N")
      ->check(CLI::Validator(check_device, "NAME"));
  app.add_option("--threads", options.run.threads, "threads of the CPU; 0: all processors")
      ->check(CLI::Range(0, 1024));
  app.add_option("--data", options.data, "folder with the IDX files, instead of the system's");
  app.add_option("--json", options.json, "write all runs and the summary to this file")
      ->check(CLI::Validator(check_output_file, "FILE"));
  app.add_option("--html", options.html, "write a report with charts to this file, a single page")
      ->check(CLI::Validator(check_output_file, "FILE"));
}

/// The page, for which a step of each policy is planned and looked at.
std::string make_report(const Options& options, const nlohmann::json& runs,
                        const nlohmann::json& summary, const std::string& title,
                        const demi::Dataset& train) {
  nlohmann::json results = {{"title", title}, {"runs", runs}, {"summary", summary}};
  RunOptions run = options.run;
  for (const std::string& policy : options.policies) {
    run.policy = policy;
    results["plans"][policy] = demi::benchmarks::plan_to_json(run, train);
    results["precision"][policy] = demi::benchmarks::precision_to_json(run, train);
  }
  return demi::benchmarks::html_report(results, options.policies);
}

void compare(Options& options) {
  std::vector<std::string>& policies = options.policies;
  for (std::size_t i = 1; i < policies.size(); ++i) {
    if (std::find(policies.begin(), policies.begin() + static_cast<std::ptrdiff_t>(i),
                  policies[i]) != policies.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw std::invalid_argument("expected different policies. Received: '" + policies[i] +
                                  "' twice.");
    }
  }
  options.run.architecture = architecture_named(options.model);
  const auto [train, test] = demi::datasets::fashion_mnist(options.data);
  nlohmann::json runs = nlohmann::json::array();
  const std::uint64_t first_seed = options.run.seed;
  for (int i = 0; i < options.seeds; ++i) {
    for (const std::string& policy : policies) {
      options.run.policy = policy;
      options.run.seed = first_seed + static_cast<std::uint64_t>(i);
      runs.push_back(demi::benchmarks::isolated_run(options.run, train, test));
      const nlohmann::json& run = runs.back();
      fmt::print(stderr, "{} seed {}: test accuracy {:.4f}, {:.0f} images/s\n", policy,
                 options.run.seed, run["test_accuracy"].get<double>(),
                 run["images_per_second"].get<double>());
    }
  }
  const nlohmann::json summary = demi::benchmarks::summarize_runs(runs, policies);
  const std::string title = fmt::format(
      "{}, batch {}, {} on {}, mean ± deviation over {} seed{}", options.model,
      options.run.batch_size,
      options.run.steps > 0 ? fmt::format("{} steps", options.run.steps)
                            : fmt::format("{} epochs", options.run.epochs),
      runs[0]["device"].get<std::string>(), options.seeds, options.seeds == 1 ? "" : "s");
  fmt::print("{}\n\n{}", title, demi::benchmarks::format_table(summary, policies));
  if (runs[0]["device"] != "cpu") {
    for (const std::string& policy : policies) {
      options.run.policy = policy;
      fmt::print("\n{}", demi::benchmarks::precision_table(options.run, train));
    }
  }
  if (!options.json.empty()) write_json(options.json, {{"runs", runs}, {"summary", summary}});
  if (!options.html.empty()) {
    write_text(options.html, make_report(options, runs, summary, title, train));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains one network under several dtype policies and compares the results.",
               "compare_precision");
  add_options(app, options);
  return run_program(app, argc, argv, [&] { compare(options); });
}
