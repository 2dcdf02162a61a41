#include "models/training_run.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/mlp.h"
#include "models/mnist_cnn.h"
#include "models/resnet20.h"
#include "models/vgg8.h"

namespace demi::models {
namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Times the steps of a run.
class Stopwatch : public Callback {
 public:
  explicit Stopwatch(Clock::time_point started) : started_(started) {}

  void on_epoch_begin(int /*epoch*/) override { epoch_started_ = last_end_ = Clock::now(); }

  void on_train_batch_end(std::int64_t batch, const BatchLogs& /*logs*/) override {
    const Clock::time_point now = Clock::now();
    const std::int64_t size = parameters().batch_size;
    const std::int64_t rows = std::min(size, parameters().samples - batch * size);
    if (first_step_seconds_ == 0) {
      first_step_seconds_ = seconds_since(started_);
    } else {
      const double seconds = std::chrono::duration<double>(now - last_end_).count();
      seconds_ += seconds;
      samples_ += rows;
      if (rows == size) whole_steps_.push_back(seconds);
    }
    last_end_ = now;
  }

  void on_epoch_end(int /*epoch*/, Logs& /*logs*/) override {
    epoch_seconds_.push_back(seconds_since(epoch_started_));
  }

  void write_to(RunResult& result) const {
    result.first_step_seconds = first_step_seconds_;
    result.epoch_seconds = epoch_seconds_;
    if (seconds_ > 0) result.images_per_second = static_cast<double>(samples_) / seconds_;
    if (whole_steps_.empty()) return;
    std::vector<double> sorted = whole_steps_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    result.step_ms_median = *middle * 1e3;
  }

 private:
  Clock::time_point started_;
  Clock::time_point epoch_started_;
  Clock::time_point last_end_;
  double first_step_seconds_ = 0;
  double seconds_ = 0;        // of all steps but the first
  std::int64_t samples_ = 0;  // in these
  std::vector<double> whole_steps_;
  std::vector<double> epoch_seconds_;
};

/// Notes about 100 points of the curves of a run.
class Curve : public Callback {
 public:
  void on_train_begin() override {
    const TrainingParameters& fit = parameters();
    interval_ = std::max<std::int64_t>(1, fit.epochs * fit.steps_per_epoch / 100);
  }

  void on_epoch_begin(int /*epoch*/) override { before_ = {}; }

  void on_train_batch_end(std::int64_t batch, const BatchLogs& logs) override {
    const TrainingParameters& fit = parameters();
    const bool is_last = batch + 1 == fit.steps_per_epoch;
    if (++steps_ % interval_ != 0 && !is_last) return;
    const auto samples = static_cast<double>(std::min(fit.samples, (batch + 1) * fit.batch_size));
    const Sums now{samples, logs.values().at("loss") * samples,
                   logs.values().at("accuracy") * samples};
    const TrainingStatus state = status();
    const double count = now.samples - before_.samples;
    points_.push_back({.step = state.step,
                       .loss = (now.loss - before_.loss) / count,
                       .accuracy = (now.accuracy - before_.accuracy) / count,
                       .loss_scale = state.loss_scale,
                       .skipped_steps = state.skipped_steps});
    before_ = now;
  }

  [[nodiscard]] const std::vector<CurvePoint>& points() const { return points_; }

 private:
  struct Sums {
    double samples = 0;
    double loss = 0;
    double accuracy = 0;
  };

  std::int64_t interval_ = 1;
  std::int64_t steps_ = 0;
  Sums before_;  // of this epoch, at the last point
  std::vector<CurvePoint> points_;
};

/// The highest resident set size of this process so far, from /proc; 0 where there is none.
std::uint64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    std::uint64_t kibibytes = 0;
    status >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

nlohmann::json curve_to_json(const std::vector<CurvePoint>& points) {
  nlohmann::json curve = nlohmann::json::array();
  for (const CurvePoint& point : points) {
    curve.push_back({{"step", point.step},
                     {"loss", point.loss},
                     {"accuracy", point.accuracy},
                     {"loss_scale", point.loss_scale},
                     {"skipped_steps", point.skipped_steps}});
  }
  return curve;
}

nlohmann::json epochs_to_json(const RunResult& result) {
  nlohmann::json epochs = nlohmann::json::array();
  for (std::size_t i = 0; i < result.history.epoch.size(); ++i) {
    nlohmann::json epoch = {{"epoch", result.history.epoch[i]},
                            {"seconds", result.epoch_seconds.at(i)}};
    for (const auto& [name, values] : result.history.history) epoch[name] = values[i];
    epochs.push_back(std::move(epoch));
  }
  return epochs;
}

}  // namespace

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> kAll = {
      {"mnist_cnn", mnist_cnn}, {"mlp", mlp}, {"resnet20", resnet20}, {"vgg8", vgg8}};
  return kAll;
}

const Architecture& architecture_named(const std::string& name) {
  std::string all;
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) return architecture;
    all += (all.empty() ? "" : ", ") + architecture.name;
  }
  throw std::invalid_argument("[architecture_named] expected one of " + all + ". Received: '" +
                              name + "'.");
}

Model build_model(const RunOptions& options, const Dataset& train) {
  set_global_policy(options.policy);
  set_random_seed(options.seed);
  reset_layer_names();
  return options.architecture.build(train.input().shape().without_front(), 10);
}

CompileOptions compile_options(const RunOptions& options) {
  return {.optimizer = Adam({.learning_rate = options.learning_rate}),
          .loss = "sparse_categorical_crossentropy",
          .metrics = {"accuracy"},
          .device = options.device,
          .threads = options.threads};
}

RunResult run_training(const RunOptions& options, const Dataset& train, const Dataset& test) {
  Model model = build_model(options, train);
  model.compile(compile_options(options));
  if (options.summary) model.summary({.batch_size = options.batch_size});

  const auto stopwatch = std::make_shared<Stopwatch>(options.started);
  const auto curve = std::make_shared<Curve>();
  std::vector<CallbackHandle> callbacks = {stopwatch, curve};
  RunManifestOptions manifest_options;
  if (!options.log_dir.empty()) {
    callbacks.push_back(TensorBoard({.log_dir = options.log_dir, .profile_step = 10}));
    manifest_options.filename = std::filesystem::path(options.log_dir) / "run.json";
  }
  const auto manifest = std::make_shared<RunManifest>(manifest_options);
  callbacks.push_back(manifest);
  if (options.monitors_precision) callbacks.push_back(PrecisionMonitor());
  RunResult result;
  result.policy = options.policy;
  result.seed = options.seed;
  result.history = model.fit(train, {.batch_size = options.batch_size,
                                     .epochs = options.epochs,
                                     .callbacks = callbacks,
                                     .verbose = options.verbose,
                                     .max_steps = options.steps});
  const Logs scores =
      model.evaluate(test, {.batch_size = options.batch_size, .verbose = options.verbose});
  result.device = model.device();
  result.test_accuracy = scores.at("accuracy");
  result.test_loss = scores.at("loss");
  result.planned_bytes = model.memory_plan(options.batch_size, {.data = train}).bytes;
  result.skipped_steps = result.history.status.skipped_steps;
  result.loss_scale = result.history.status.loss_scale;
  result.peak_rss_bytes = peak_rss_bytes();
  result.scales_loss = model.optimizer().class_name() == "LossScaleOptimizer";
  result.curve = curve->points();
  result.manifest = manifest->manifest();
  stopwatch->write_to(result);
  return result;
}

nlohmann::json to_json(const RunResult& result) {
  const PlannedBytes& planned = result.planned_bytes;
  return {{"policy", result.policy},
          {"seed", result.seed},
          {"device", result.device},
          {"test_accuracy", result.test_accuracy},
          {"test_loss", result.test_loss},
          {"images_per_second", result.images_per_second},
          {"step_ms_median", result.step_ms_median},
          {"first_step_seconds", result.first_step_seconds},
          {"peak_rss_bytes", result.peak_rss_bytes},
          {"planned_bytes",
           {{"activations", planned.activations},
            {"weights", planned.weights},
            {"compute_copies", planned.compute_copies},
            {"gradients", planned.gradients},
            {"optimizer", planned.optimizer},
            {"temporaries", planned.temporaries},
            {"workspace", planned.workspace},
            {"arena", planned.arena},
            {"input_buffers", planned.input_buffers},
            {"constants", planned.constants},
            {"step_state", planned.step_state},
            {"total", planned.total}}},
          {"skipped_steps", result.skipped_steps},
          {"loss_scale", result.loss_scale},
          {"scales_loss", result.scales_loss},
          {"curve", curve_to_json(result.curve)},
          {"manifest", nlohmann::json::parse(result.manifest.to_json())},
          {"epochs", epochs_to_json(result)}};
}

}  // namespace demi::models
