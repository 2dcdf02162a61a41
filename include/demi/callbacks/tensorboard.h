// TensorBoard: a callback that writes what `tensorboard --logdir` shows, without TensorFlow.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include <demi/callbacks.h>

namespace demi {

struct TensorBoardOptions {
  /// Made where it is not there. Each training run should have a folder of its own.
  std::filesystem::path log_dir = "logs";
  /// Steps between two points of the curves by step ("step/…"); 0: only by epoch.
  std::int64_t update_freq = 50;
  /// Steps between two looks at the gradients: global norm, update ratio, and every histogram. Each
  /// costs about two steps and, at the first, a compilation; 0: none.
  std::int64_t gradient_freq = 200;
  /// Epochs between two histograms of weights, gradients and the exponents of gradients; 0: none.
  int histogram_freq = 1;
  bool write_graph = true;
  /// A step of this fit, counted from 1, that is run one kernel at a time, and timed; 0: none.
  std::int64_t profile_step = 0;
  /// Shown in the HParams tab beside optimizer, learning rate, batch size, policy and device.
  std::map<std::string, std::variant<double, bool, std::string>> hparams = {};
};

/// Writes event files below `log_dir`, those of training into "train", those of validation into
/// "validation":
///  - by epoch: "epoch_loss", "epoch_<metric>", "epoch_learning_rate", in both folders; the scalars
///    of a MemoryRecord as "memory/in_use_MB", "memory/arena_peak_MB", …;
///  - by step: "step/loss" and "step/<metric>", means over the steps since the last point,
///    "step/learning_rate", "step/images_per_second"; with loss scaling "precision/loss_scale" and
///    "precision/skipped_steps";
///  - at looks: "gradients/global_norm" (without the loss scale), "update_ratio/<variable>": the
///  norm
///    of the step's change of a weight by the norm of the weight;
///  - once: "memory/<category>_MB" as planned, graph, configuration as text, hyper-parameters;
///  - histograms "weights/<variable>", "gradients/<variable>" and "gradient_exponents/<variable>",
///    which counts floor(log2(|gradient|));
///  - the profile as "step_<n>.trace.json" in `log_dir`, for chrome://tracing or ui.perfetto.dev:
///  one
///    track with the kernels of each half of the step, and counters of the arena's live bytes.
///
/// A folder that cannot be written ends fit before training starts (std::runtime_error). What fails
/// later never ends it: logging stops with a line on stderr, and another at the end of training;
/// error() has it too, and the files keep what they held.
class TensorBoard : public Callback {
 public:
  /// Throws std::invalid_argument for negative numbers or an empty folder.
  explicit TensorBoard(TensorBoardOptions options = {});

  void on_train_begin() override;
  void on_train_batch_begin(std::int64_t batch) override;
  void on_train_batch_end(std::int64_t batch, const BatchLogs& logs) override;
  void on_epoch_begin(int epoch) override;
  void on_epoch_end(int epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;
  void on_train_failed(const std::exception& error) override;

  /// Why logging stopped; empty if it did not.
  [[nodiscard]] const std::string& error() const;

 private:
  class Run;
  TensorBoardOptions options_;
  std::shared_ptr<Run> run_;  ///< of the last fit
};

}  // namespace demi
