// callback_cost: the share of training time that PrecisionMonitor and TensorBoard take.
//
// A clock callback before and one after each of them in the list: their time is what lies between,
// at the beginning and at the end of every batch, in the same run as the steps.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <demi/demi.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "models/command_line.h"
#include "models/training_run.h"

namespace {

using namespace demi::models;

struct Time {
  double first = 0;  ///< seconds at the first batch, compilation included
  double later = 0;  ///< seconds at all others
};

struct Spent {
  Clock::time_point begin;
  Time time;
  bool is_first = true;
};

/// The two callbacks around one whose time goes to `spent`.
std::pair<demi::LambdaCallback, demi::LambdaCallback> clocks(const std::shared_ptr<Spent>& spent) {
  const auto start = [spent] { spent->begin = Clock::now(); };
  const auto stop = [spent] {
    const double seconds = std::chrono::duration<double>(Clock::now() - spent->begin).count();
    (spent->is_first ? spent->time.first : spent->time.later) += seconds;
  };
  demi::LambdaCallback before(
      {.on_train_batch_begin = [start](std::int64_t) { start(); },
       .on_train_batch_end = [start](std::int64_t, const demi::BatchLogs&) { start(); }});
  demi::LambdaCallback after({.on_train_batch_begin = [stop](std::int64_t) { stop(); },
                              .on_train_batch_end =
                                  [stop, spent](std::int64_t, const demi::BatchLogs&) {
                                    stop();
                                    spent->is_first = false;
                                  }});
  return {before, after};
}

void print(const char* name, const Time& time, double rest) {
  fmt::print("{:18} {:6.3f} % of the time of training; first batch {:.0f} ms\n", name,
             time.later / rest * 100, time.first * 1e3);
}

void measure(const RunOptions& options) {
  const auto [train, test] = demi::datasets::fashion_mnist();
  demi::Model model = build_model(options, train);
  model.compile(compile_options(options));
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("callback_cost_{}", getpid());
  const auto monitor = std::make_shared<Spent>();
  const auto board = std::make_shared<Spent>();
  const auto all = std::make_shared<Spent>();
  const auto monitor_clocks = clocks(monitor);
  const auto board_clocks = clocks(board);
  // From the end of the first batch on.
  const demi::LambdaCallback last(
      {.on_train_batch_end = [all](std::int64_t, const demi::BatchLogs&) {
        if (std::exchange(all->is_first, false)) all->begin = Clock::now();
      }});
  (void)model.fit(train,
                  {.batch_size = options.batch_size,
                   .epochs = 1'000'000,
                   .callbacks = {monitor_clocks.first, demi::PrecisionMonitor({.verbose = false}),
                                 monitor_clocks.second, board_clocks.first,
                                 demi::TensorBoard({.log_dir = folder}), board_clocks.second, last},
                   .verbose = 0,
                   .max_steps = options.steps});
  const double seconds = std::chrono::duration<double>(Clock::now() - all->begin).count();
  const double rest = seconds - monitor->time.later - board->time.later;
  fmt::print("{}, {}, batch {}, {} steps on {}, {:.2f} ms/step without callbacks\n",
             options.architecture.name, options.policy, options.batch_size, options.steps,
             model.device(), rest / static_cast<double>(options.steps - 1) * 1e3);
  print("PrecisionMonitor", monitor->time, rest);
  print("TensorBoard", board->time, rest);
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  RunOptions options{.architecture = architectures().front(), .policy = "mixed_float16"};
  options.steps = 1000;
  std::string name = options.architecture.name;
  CLI::App app("Measures what watching a run costs.", "callback_cost");
  app.option_defaults()->always_capture_default();
  add_model_option(app, name);
  app.add_option("--policy", options.policy, "dtype policy")
      ->check(CLI::Validator(check_policy, "POLICY"));
  app.add_option("--batch-size", options.batch_size, "images per step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--steps", options.steps, "steps to train")->check(CLI::Range(2, 1'000'000));
  app.add_option("--device", options.device, "auto, cpu or cuda:N")
      ->check(CLI::Validator(check_device, "NAME"));
  app.add_option("--threads", options.threads, "threads of the CPU; 0: all processors")
      ->check(CLI::Range(0, 1024));
  return run_program(app, argc, argv, [&] {
    options.architecture = architecture_named(name);
    measure(options);
  });
}
