// throughput: how fast a network trains and predicts on random images, by batch size. Every
// training run has a process of its own, so that its peak memory is its own.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <demi/demi.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "benchmarks/compare_precision/isolated_run.h"
#include "models/command_line.h"
#include "models/output_file.h"
#include "models/training_run.h"

namespace {

using namespace demi::models;

struct Options {
  std::string model = "mnist_cnn";
  std::vector<std::int64_t> image = {28, 28, 1};
  std::vector<std::int64_t> batch_sizes = {32, 128, 512, 4096};
  std::int64_t images = 8192;
  std::string json;
  RunOptions run{.epochs = 1'000'000, .verbose = 0};
};

demi::Dataset random_images(const Options& options, std::int64_t count) {
  std::mt19937 random(1);
  demi::Tensor x(demi::Shape(options.image).with_front(count), demi::uint8);
  for (std::uint8_t& pixel : x.data<std::uint8_t>()) {
    pixel = static_cast<std::uint8_t>(random() % 256);
  }
  demi::Tensor y({count}, demi::uint8);
  for (std::uint8_t& label : y.data<std::uint8_t>()) {
    label = static_cast<std::uint8_t>(random() % 10);
  }
  return demi::Dataset(std::move(x), std::move(y)).rescaled(1 / 255.0);
}

/// The median time of a batch in predict, in milliseconds.
double predict_ms(const Options& options, std::int64_t batch_size) {
  demi::set_global_policy(options.run.policy);
  demi::Model model = options.run.architecture.build(demi::Shape(options.image), 10);
  model.compile({.device = options.run.device, .threads = options.run.threads});
  const demi::Dataset images = random_images(options, batch_size);
  std::vector<double> times;
  const std::int64_t repetitions = std::clamp<std::int64_t>(options.images / batch_size, 5, 200);
  for (std::int64_t i = 0; i < repetitions; ++i) {
    const Clock::time_point begin = Clock::now();
    (void)model.predict(images, {.batch_size = batch_size, .verbose = 0});
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void measure(Options& options) {
  options.run.architecture = architecture_named(options.model);
  nlohmann::json runs = nlohmann::json::array();
  for (const std::int64_t batch_size : options.batch_sizes) {
    options.run.batch_size = batch_size;
    options.run.steps = std::max<std::int64_t>(8, options.images / batch_size);
    const demi::Dataset train = random_images(options, batch_size * 8);
    nlohmann::json run = demi::benchmarks::isolated_run(options.run, train, train.take(1));
    run["batch_size"] = batch_size;
    runs.push_back(std::move(run));
  }
  fmt::print("{}, {}, images {}\n{:>6} {:>12} {:>12} {:>12} {:>14} {:>13} {:>9}\n", options.model,
             options.run.policy, demi::Shape(options.image).to_string(), "batch", "train ms",
             "us/image", "predict ms", "us/image", "first step s", "peak MB");
  for (nlohmann::json& run : runs) {
    const auto batch_size = run["batch_size"].get<std::int64_t>();
    const double train = run["step_ms_median"].get<double>();
    const double predict = predict_ms(options, batch_size);
    run["predict_ms_median"] = predict;
    const double thousands = static_cast<double>(batch_size) / 1e3;
    fmt::print("{:>6} {:>12.3f} {:>12.1f} {:>12.3f} {:>14.1f} {:>13.2f} {:>9.0f}\n", batch_size,
               train, train / thousands, predict, predict / thousands,
               run["first_step_seconds"].get<double>(), run["peak_rss_bytes"].get<double>() / 1e6);
  }
  if (!options.json.empty()) write_json(options.json, runs);
}

void add_options(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  add_model_option(app, options.model);
  app.add_option("--policy", options.run.policy, "dtype policy")
      ->check(CLI::Validator(check_policy, "POLICY"));
  app.add_option("--image", options.image, "height, width and channels")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::PositiveNumber);
  app.add_option("--batch-sizes", options.batch_sizes, "images per step, one run for each")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--images", options.images, "in each run, but at least eight batches")
      ->check(CLI::PositiveNumber);
  app.add_option("--device", options.run.device, "auto, cpu or cuda:N")
      ->check(CLI::Validator(check_device, "NAME"));
  app.add_option("--threads", options.run.threads, "threads of the CPU; 0: all processors")
      ->check(CLI::Range(0, 1024));
  app.add_option("--json", options.json, "write all runs to this file")
      ->check(CLI::Validator(check_output_file, "FILE"));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures training and prediction of one network by batch size.", "throughput");
  add_options(app, options);
  return run_program(app, argc, argv, [&] { measure(options); });
}
