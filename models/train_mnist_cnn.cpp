// mnist_cnn: trains the small convolutional network on Fashion-MNIST, or on MNIST.
#include <chrono>
#include <cstdint>
#include <string>

#include <demi/demi.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "models/command_line.h"
#include "models/output_file.h"
#include "models/training_run.h"

int main(int argc, char** argv) {
  using namespace demi::models;
  RunOptions run{.architecture = architectures().front(), .summary = true};
  run.policy = "mixed_float16";
  run.started = Clock::now();
  std::string data = "fashion_mnist";
  std::string data_folder;
  std::string json;

  CLI::App app("Trains a small convolutional network and prints its test accuracy.", "mnist_cnn");
  app.option_defaults()->always_capture_default();
  app.add_option("--policy", run.policy, "dtype policy: float32, mixed_float16, mixed_bfloat16, …")
      ->check(CLI::Validator(check_policy, "POLICY"));
  app.add_option("--epochs", run.epochs, "times to go through the training data")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--steps", run.steps, "stop after so many steps; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch-size", run.batch_size, "images per step")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--learning-rate", run.learning_rate, "of Adam")->check(CLI::PositiveNumber);
  app.add_option("--seed", run.seed, "of weights and of the order of images");
  app.add_option("--device", run.device, "auto, cpu or cuda:N")
      ->check(CLI::Validator(check_device, "NAME"));
  app.add_option("--threads", run.threads, "threads of the CPU; 0: all processors")
      ->check(CLI::Range(0, 1024));
  app.add_option("--data", data_folder, "folder with the IDX files, instead of the system's");
  app.add_option("--dataset", data, "fashion_mnist or mnist")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return check_choice(name, {"fashion_mnist", "mnist"});
          },
          "NAME"));
  app.add_option("--log-dir", run.log_dir,
                 "write files for `tensorboard --logdir`, and the run's manifest, to this folder");
  app.add_flag("--monitor-precision", run.monitors_precision,
               "now and then look at what float16 makes of every layer's values");
  app.add_option("--json", json, "write the results to this file")
      ->check(CLI::Validator(check_output_file, "FILE"));

  return run_program(app, argc, argv, [&] {
    const auto [train, test] = data == "mnist" ? demi::datasets::mnist(data_folder)
                                               : demi::datasets::fashion_mnist(data_folder);
    const RunResult result = run_training(run, train, test);
    fmt::print("{}, seed {}: test accuracy {:.4f}, test loss {:.4f}\n", result.policy, result.seed,
               result.test_accuracy, result.test_loss);
    fmt::print(
        "{:.0f} images/s, {:.2f} ms/step, first step after {:.2f} s, peak memory {:.0f} MB\n",
        result.images_per_second, result.step_ms_median, result.first_step_seconds,
        static_cast<double>(result.peak_rss_bytes) / 1e6);
    if (!json.empty()) write_json(json, to_json(result));
  });
}
