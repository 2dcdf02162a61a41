// A training run as the programs do it: build, train, evaluate, and measure along the way.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <demi/demi.h>
#include <nlohmann/json_fwd.hpp>

namespace demi::models {

using Clock = std::chrono::steady_clock;

/// A network by name.
struct Architecture {
  std::string name = {};
  Model (*build)(const Shape& image_shape, int classes) = nullptr;
};

/// All networks of this folder; mnist_cnn first.
[[nodiscard]] const std::vector<Architecture>& architectures();

/// The one of that name. Throws std::invalid_argument naming all if there is none.
[[nodiscard]] const Architecture& architecture_named(const std::string& name);

struct RunOptions {
  Architecture architecture = {};
  std::string policy = "float32";
  int epochs = 3;
  std::int64_t steps = 0;  ///< at most so many steps in all; 0: no limit
  std::int64_t batch_size = 128;
  std::uint64_t seed = 0;  ///< of weights and of the order of samples
  double learning_rate = 1e-3;
  std::string device = "auto";
  int threads = 0;
  int verbose = 1;
  bool summary = false;  ///< print the table of layers first
  /// Gets TensorBoard's files, with a profile of step 10, and the run's manifest, run.json. Empty:
  /// none.
  std::string log_dir = {};
  bool monitors_precision = false;  ///< with a PrecisionMonitor, which prints its report
  /// From when first_step_seconds counts.
  Clock::time_point started = Clock::now();
};

/// A place on the curves of a run.
struct CurvePoint {
  std::int64_t step = 0;  ///< counted from 1
  double loss = 0;        ///< like accuracy: the mean over the steps since the last point
  double accuracy = 0;
  double loss_scale = 1;
  std::int64_t skipped_steps = 0;
};

/// What a run gave. "Images" are samples.
struct RunResult {
  std::string policy;
  std::uint64_t seed = 0;
  std::string device;
  double test_accuracy = 0;
  double test_loss = 0;
  double images_per_second = 0;      ///< while training, without the first step
  double step_ms_median = 0;         ///< of whole batches, without the first step
  double first_step_seconds = 0;     ///< from `started` to the end of the first step
  std::uint64_t peak_rss_bytes = 0;  ///< of the process, the highest so far
  PlannedBytes planned_bytes;
  std::int64_t skipped_steps = 0;
  double loss_scale = 1;
  bool scales_loss = false;  ///< whether there is a LossScaleOptimizer
  History history;
  std::vector<double> epoch_seconds;
  std::vector<CurvePoint> curve;  ///< about 100 points, over all epochs
  Config manifest;                ///< of RunManifest
};

/// The network that a run trains; sets the global policy and seed.
[[nodiscard]] Model build_model(const RunOptions& options, const Dataset& train);

/// How it is compiled: Adam, sparse categorical cross-entropy, accuracy.
[[nodiscard]] CompileOptions compile_options(const RunOptions& options);

/// Trains the architecture on `train` and evaluates it on `test`, with Adam and sparse categorical
/// cross-entropy. Sets the global policy and seed. Throws what demi throws.
[[nodiscard]] RunResult run_training(const RunOptions& options, const Dataset& train,
                                     const Dataset& test);

/// The result under the names of its members; `history` as "epochs", a list of objects, and what a
/// JSON number cannot be as null.
[[nodiscard]] nlohmann::json to_json(const RunResult& result);

}  // namespace demi::models
