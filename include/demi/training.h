// Options and results of Model::compile, fit, evaluate and predict. Names and defaults are Keras'.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <demi/callbacks.h>
#include <demi/dataset.h>
#include <demi/losses.h>
#include <demi/metrics.h>
#include <demi/optimizers/optimizer.h>

namespace demi {

/// Which forward results a training step computes again for its backward half instead of keeping
/// them: forward work for memory. Weights, losses and metrics are bit for bit the same.
///   .recompute = "auto"                           what it takes to fit
///   CompileOptions::memory_limit .recompute = {"conv2d_1", "block_1"}          what these layers
///   (and layers inside them)
///                                                 compute; between two that are kept a chain of
///                                                 named ones is computed again from the first
/// A result that is fused into the layer before it ("relu" into "conv2d") belongs to that layer.
class Recompute {
 public:
  /// Nothing.
  Recompute() = default;
  // NOLINTBEGIN(google-explicit-constructor): written as the argument it is
  /// "auto", or the path of one layer.
  Recompute(const char* layer) : Recompute({std::string(layer)}) {}
  Recompute(std::vector<std::string> layers) : layers_(std::move(layers)) {
    is_auto_ = layers_.size() == 1 && layers_[0] == "auto";
    if (is_auto_) layers_.clear();
  }
  Recompute(std::initializer_list<std::string> layers)
      : Recompute(std::vector<std::string>(layers)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool is_auto() const { return is_auto_; }
  [[nodiscard]] const std::vector<std::string>& layers() const { return layers_; }

 private:
  std::vector<std::string> layers_;
  bool is_auto_ = false;
};

struct CompileOptions {
  /// A name ("adam", "sgd", "adamw") or an optimizer. If a layer computes in float16 it is wrapped
  /// in a LossScaleOptimizer unless it is one.
  OptimizerSpec optimizer = "adam";
  /// One for each output; empty: the model can only predict.
  LossSpecs loss = {};
  /// One for each loss; empty: all 1.
  std::vector<double> loss_weights = {};
  std::vector<MetricSpec> metrics = {};
  /// "cpu", "cuda:N", or "auto": the first GPU if there is one that can be used, else the CPU.
  /// Empty: current_device().
  std::string device = "";
  /// Of the CPU; 0: DEMI_NUM_THREADS or the number of processors. Results do not depend on it.
  int threads = 0;
  /// Whether fit copies its data sets to a GPU, where they take at most half of the free memory;
  /// otherwise, and on the CPU, each batch is copied while the one before is computed on. Results
  /// are the same.
  bool data_on_device = true;
  /// Throws std::invalid_argument at compile() for layers that the model does not have.
  Recompute recompute = {};
  /// Bytes on the device that this model may take, its weights included; 0: what the device has.
  /// Whatever needs more fails before it begins: OutOfMemory with the numbers and the largest batch
  /// that fits.
  std::size_t memory_limit = 0;
};

/// Where training stands in its data: the next batch to be trained on. With `seed` it determines
/// the samples of all batches to come.
struct TrainingPosition {
  int epoch = 0;
  std::int64_t batch = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const TrainingPosition&, const TrainingPosition&) = default;
};

struct FitOptions {
  std::int64_t batch_size = 32;
  int epochs = 1;  ///< the epoch at whose end training is complete, counted from 0
  Dataset validation_data = {};
  /// Share of the samples, taken from the end before shuffling, to validate on; unused with
  /// validation_data.
  double validation_split = 0;
  std::int64_t validation_batch_size = 0;  ///< 0: batch_size
  bool shuffle = true;
  /// Of the order of samples; nullopt: that of set_random_seed.
  std::optional<std::uint64_t> seed = std::nullopt;
  std::vector<CallbackHandle> callbacks = {};
  /// 0: silent; 1: a progress bar, or plain lines where output is not a terminal; 2: a line per
  /// epoch.
  int verbose = 1;
  int initial_epoch = 0;
  /// Batches after which an epoch ends; 0: all.
  std::int64_t steps_per_epoch = 0;
  /// Batches after which this call returns, also in the middle of an epoch; 0: no limit. The run is
  /// then taken to be continued: moving averages of weights (use_ema) do not replace them.
  std::int64_t max_steps = 0;
  /// Go on from here instead of initial_epoch: what load_checkpoint returned.
  std::optional<TrainingPosition> resume = std::nullopt;
  /// Train on whatever comes: input data are not searched for NaN and infinity, and neither a
  /// non-finite loss nor skipped steps end training.
  bool allow_non_finite = false;
};

struct EvaluateOptions {
  std::int64_t batch_size = 32;
  std::vector<CallbackHandle> callbacks = {};
  int verbose = 1;
};

struct PredictOptions {
  std::int64_t batch_size = 32;
  int verbose = 0;
};

}  // namespace demi
