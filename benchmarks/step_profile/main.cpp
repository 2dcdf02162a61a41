// step_profile: a training step of one network on the CPU, kernel by kernel: the best time of each
// beside its floor, the larger of operations ÷ peak and bytes ÷ bandwidth as measured in the same
// run. Kernels that skip structural zeros count the operations of the dense computation, so they
// may be below their floor; so may those whose operands are still in a cache.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <demi/demi.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "benchmarks/ops/floors.h"
#include "kernels/forwarding_backend.h"
#include "models/command_line.h"
#include "models/training_run.h"
#include "src/ir/work.h"
#include "src/training/compile.h"
#include "src/training/model_impl.h"
#include "src/training/trainer.h"

namespace demi::benchmarks {
namespace {

struct Options {
  std::string model = "mnist_cnn";
  std::string policy = "float32";
  std::vector<std::int64_t> image = {28, 28, 1};
  std::int64_t batch_size = 128;
  int threads = 0;
  int steps = 40;
  bool all = false;
};

/// The best time of each launch of the longest sequence, in seconds.
class TimedSequence final : public LaunchSequence {
 public:
  TimedSequence(std::vector<Launch> launches, std::vector<double>& best)
      : launches_(std::move(launches)), best_(best) {
    best_.assign(launches_.size(), 1e9);
  }
  void run() override {
    double begin = seconds_now();
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      const Launch& launch = launches_[i];
      launch.kernel->run({launch.inputs, launch.outputs, launch.workspace});
      const double end = seconds_now();
      best_[i] = std::min(best_[i], end - begin);
      begin = end;
    }
  }

 private:
  std::vector<Launch> launches_;
  std::vector<double>& best_;
};

/// The CPU, timing every kernel of the sequences made last.
class TimedBackend final : public ForwardingBackend {
 public:
  explicit TimedBackend(int threads) : ForwardingBackend(make_cpu_backend(threads)) {}
  [[nodiscard]] const std::vector<double>& best() const { return best_; }

  [[nodiscard]] std::unique_ptr<LaunchSequence> sequence(std::vector<Launch> launches) override {
    return std::make_unique<TimedSequence>(std::move(launches), best_);
  }

 private:
  std::vector<double> best_;
};

void print_profile(const plan::Plan& plan, const std::vector<double>& best, const Options& options,
                   double gflops, double gbps) {
  double total = 0;
  double floor_total = 0;
  double flops_total = 0;
  fmt::print("{:>9} {:>9} {:>6}  {}\n", "ms", "floor ms", "share", "kernel");
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const ir::Node& node = plan.graph->node(plan.steps[i].node);
    const double flops = 2 * ir::multiply_adds(*plan.graph, node);
    const auto bytes = static_cast<double>(ir::moved_bytes(*plan.graph, node));
    const double floor = std::max(flops / gflops * 1e-9, bytes / gbps * 1e-9);
    total += best[i];
    floor_total += floor;
    flops_total += flops;
    if (!options.all && best[i] < 5e-6) continue;
    fmt::print("{:>9.3f} {:>9.3f} {:>6.2f}  {} {} {} {}\n", best[i] * 1e3, floor * 1e3,
               floor / best[i], node.op->name, plan.steps[i].kernel->description(),
               plan.graph->type(node.outputs[0]).to_string(), node.scope.layer);
  }
  fmt::print(
      "{:>9.3f} {:>9.3f} {:>6.2f}  all {} kernels; dense operations alone {:.3f} ms\n"
      "peak {:.1f} GFLOP/s, bandwidth {:.1f} GB/s\n",
      total * 1e3, floor_total * 1e3, floor_total / total, plan.steps.size(),
      flops_total / gflops * 1e-6, gflops, gbps);
}

void profile(const Options& options) {
  set_global_policy(options.policy);
  const Shape image(options.image);
  const Model model = models::architecture_named(options.model).build(image, 10);
  const LayerGraph& graph = model.impl().graph();
  const TrainingSpec training =
      make_training_spec(graph, {.optimizer = Adam(), .loss = "sparse_categorical_crossentropy"});
  const StepState state = make_step_state(training);
  StepSpec spec;
  spec.mode = StepMode::kTrain;
  spec.inputs = {
      {.name = "x", .type = {image.with_front(options.batch_size), uint8}, .scale = 1 / 255.0}};
  spec.targets = {{.name = "y", .type = {{options.batch_size}, uint8}}};
  const auto backend = std::make_shared<TimedBackend>(options.threads);
  Program program(spec, plan_step(graph, spec, &training, &state, *backend),
                  std::make_shared<runtime::Arena>(backend));
  std::mt19937 random(1);
  auto* pixels = static_cast<std::uint8_t*>(program.input(0, 0));
  auto* labels = static_cast<std::uint8_t*>(program.target(0, 0));
  const std::int64_t count = options.batch_size * image.elements();
  for (std::int64_t i = 0; i < count; ++i) pixels[i] = static_cast<std::uint8_t>(random() % 256);
  for (std::int64_t i = 0; i < options.batch_size; ++i) {
    labels[i] = static_cast<std::uint8_t>(random() % 10);
  }

  cpu::ThreadPool pool(options.threads > 0 ? options.threads : cpu::default_thread_count());
  double gflops = 0;
  double gbps = 0;
  for (int step = 0; step < options.steps; ++step) {
    program.run(0);
    if (step % 8 != 0) continue;
    gflops = std::max(gflops, fma_gflops(pool));
    gbps = std::max(gbps, memory_gbps(pool));
  }
  print_profile(program.plan(), backend->best(), options, gflops, gbps);
}

}  // namespace
}  // namespace demi::benchmarks

int main(int argc, char** argv) {
  using namespace demi::models;
  demi::benchmarks::Options options;
  CLI::App app("Times every kernel of a training step beside its floor.", "step_profile");
  app.option_defaults()->always_capture_default();
  add_model_option(app, options.model);
  app.add_option("--policy", options.policy, "dtype policy")
      ->check(CLI::Validator(check_policy, "POLICY"));
  app.add_option("--image", options.image, "height, width and channels")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::PositiveNumber);
  app.add_option("--batch-size", options.batch_size, "images per step")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", options.threads, "0: all processors")->check(CLI::Range(0, 1024));
  app.add_option("--steps", options.steps, "to take the best times of")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--all", options.all, "also print kernels of less than 5 µs");
  return run_program(app, argc, argv, [&] { demi::benchmarks::profile(options); });
}
