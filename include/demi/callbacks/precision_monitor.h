// PrecisionMonitor: a callback that says whether float16 holds what a model computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <demi/callbacks.h>

namespace demi {

/// The values of one kind in one layer, as float32 computes them.
struct RangeSummary {
  double max_abs = 0;      ///< of the finite ones
  double overflowing = 0;  ///< share of all that are at least 65520, infinite in float16
  double flushed = 0;      ///< share of those that are not 0 and would be in float16: below 2^-25
  double non_finite = 0;   ///< share of all that are NaN or infinite in float32 already
  /// {e, how many have floor(log2(|x|)) = e}, from the least to the largest there is.
  std::vector<std::pair<int, std::int64_t>> exponents = {};
};

struct LayerPrecision {
  std::string layer;        ///< path, "" for losses
  RangeSummary activation;  ///< of all forward results that are 16 bits wide
  RangeSummary gradient;    ///< of all backward ones, multiplied by PrecisionReport::loss_scale
};

/// What the looks so far have found.
struct PrecisionReport {
  std::int64_t looks = 0;
  std::int64_t last_step = 0;  ///< of the last look
  /// At the last look; without loss scaling the scale with which a LossScaleOptimizer begins.
  double loss_scale = 1;
  /// The largest power of two at which the largest gradient stays a factor of 8 below float16's
  /// largest number, in [2^-14, 2^24].
  double recommended_scale = 1;
  std::vector<LayerPrecision> layers = {};     ///< in the order of the forward pass
  std::vector<std::string> keep_float32 = {};  ///< layers that float16 does not hold at any scale
  /// Sentences: what is wrong, in which layer and direction, and what to do about it. One that says
  /// so if nothing is.
  std::vector<std::string> findings = {};
};

/// The table of layers, then the findings.
[[nodiscard]] std::string to_string(const PrecisionReport& report);

struct PrecisionMonitorOptions {
  std::int64_t every_steps = 200;  ///< steps between two looks; the first is before the first step
  std::int64_t samples = 32;       ///< of the batch, that are looked at; 0: all
  bool verbose = true;  ///< print the report at the end, and a line when a step is skipped
};

/// Now and then runs the forward and backward half of the step that comes next a second time, as
/// training does but with every 16-bit value as float32, on the first samples of its batch, and
/// looks at what float16 would have made of each value. In a model that computes in float32
/// throughout it looks at the values that would be float16 under mixed_float16.
///
/// Where the device lacks the memory for that, it says so once, looks no more, and training goes
/// on.
///
/// When a step was skipped, or the loss is not finite without loss scaling, it says where the first
/// non-finite value comes from: a NaN of float32 itself, an overflow of float16 on the way forward,
/// which no loss scale heals, or one on the way back, which a smaller scale does.
class PrecisionMonitor : public Callback {
 public:
  /// Throws std::invalid_argument unless every_steps >= 1 and samples >= 0.
  explicit PrecisionMonitor(PrecisionMonitorOptions options = {});

  void on_train_begin() override;
  void on_train_batch_begin(std::int64_t batch) override;
  void on_step_skipped(std::int64_t step, double scale) override;
  bool on_non_finite_loss(std::int64_t step) override;
  void on_train_end(const Logs& logs) override;
  void on_train_failed(const std::exception& error) override;

  /// Of the last fit.
  [[nodiscard]] PrecisionReport report() const;
  /// Diagnoses of skipped steps and non-finite losses in the last fit, the first of each series.
  [[nodiscard]] const std::vector<std::string>& diagnoses() const { return diagnoses_; }

 private:
  struct State;
  void diagnose(std::int64_t step, const std::string& what);

  PrecisionMonitorOptions options_;
  std::shared_ptr<State> state_;  ///< of the last fit
  std::vector<std::string> diagnoses_;
};

}  // namespace demi
