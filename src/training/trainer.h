// Trainer: what makes a model run: a device, what compile() was given, and the compiled steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/memory.h>
#include <demi/precision.h>
#include <demi/training.h>

#include "src/layers/layer_graph.h"
#include "src/training/compile.h"

namespace demi {

class LossScaleOptimizer;

/// What compile() asks of the steps of `model`. Throws std::invalid_argument "[compile] …" if the
/// options do not fit it.
[[nodiscard]] TrainingSpec make_training_spec(const LayerGraph& model,
                                              const CompileOptions& options);

/// A step that changed nothing, and the loss scale after it.
struct SkippedStep {
  std::int64_t step = 0;
  double loss_scale = 1;
};

/// One look at what a step computes, without rounding: the largest activation and gradient among
/// what is 16 bits wide, and where they are ("": in the losses).
struct RangeSample {
  std::int64_t step = 0;
  double loss_scale = 1;
  double max_activation = 0;
  std::string activation_layer = {};
  double max_gradient = 0;  ///< without loss scale
  std::string gradient_layer = {};
};

/// A batch whose data stand in a buffer of the program that runs on it; no program: none.
struct BatchInPlace {
  Program* program = nullptr;
  int buffer = 0;
};

namespace internal {

/// An array of a data set and the type in which steps see the whole of it.
struct DataSource {
  const Tensor* tensor = nullptr;
  TensorType type;
};

}  // namespace internal

/// From where steps take their samples.
enum class DataPlace {
  kHost,
  kDevice,  ///< where the whole data set lies there; otherwise as kHost
};

/// Owned by the model; not thread safe. Programs are compiled at the first use of a batch size and
/// kept; all of them share one arena.
class Trainer {
 public:
  /// `model` must outlive the trainer. Without a loss in the options it can only predict. Throws
  /// std::invalid_argument if the options do not fit the model, DeviceError for a device that is
  /// not there.
  Trainer(const LayerGraph& model, const CompileOptions& options);

  [[nodiscard]] const LayerGraph& model() const { return model_; }
  /// Null if compile() was given no loss.
  [[nodiscard]] const TrainingSpec* training() const { return training_ ? &*training_ : nullptr; }
  /// Throws std::invalid_argument "[where] …" if the model was compiled without a loss.
  const TrainingSpec& require_training(const std::string& where) const;
  [[nodiscard]] const StepState& state() const { return state_; }
  /// "cpu".
  [[nodiscard]] std::string device() const { return arena_->backend().name(); }
  /// Whether waiting for the device costs nothing, so that state may be read after every step.
  [[nodiscard]] bool is_synchronous() const { return is_synchronous_; }

  /// The program for batches of `rows` samples of `data`, compiled now if need be. With
  /// DataPlace::kDevice the data must be those that keep_on_device was given last.
  [[nodiscard]] std::shared_ptr<Program> program(StepMode mode, const Dataset& data,
                                                 std::int64_t rows, const std::string& where,
                                                 DataPlace place = DataPlace::kHost);

  /// Copies the arrays of both to the device if it has room for them and compile() allows it, in
  /// place of those that were there before. `validation` may be empty. Their memory is kept until
  /// the next call. Throws as program() does.
  void keep_on_device(const Dataset& training, const Dataset& validation, const std::string& where);

  /// The small variables of all steps, to be read without waiting.
  [[nodiscard]] runtime::StateBlock& state_block() const { return arena_->state(); }

  /// Means since reset(), by the names under which they are reported. Waits for the device.
  [[nodiscard]] Logs train_logs() const { return logs_of(state_.train); }
  [[nodiscard]] Logs evaluate_logs() const { return logs_of(state_.evaluate); }
  void reset_train() const { reset(state_.train); }
  void reset_evaluate() const { reset(state_.evaluate); }

  [[nodiscard]] TrainingStatus status() const;
  /// The optimizer, if it is one that scales the loss; else null.
  [[nodiscard]] const LossScaleOptimizer* loss_scaler() const;
  /// Steps since reset_train() whose loss was not finite.
  [[nodiscard]] std::int64_t non_finite_losses() const;

  /// As Model::memory_plan. Without a profile the step is planned for the device of this trainer.
  [[nodiscard]] MemoryPlan memory_plan(std::int64_t batch_size, const MemoryPlanOptions& options,
                                       const std::string& where) const;

  /// As Model::precision_report.
  [[nodiscard]] PrecisionPlan precision_report(std::int64_t batch_size,
                                               const MemoryPlanOptions& options,
                                               const std::string& where) const;

  /// The memory that all programs share.
  [[nodiscard]] const std::shared_ptr<runtime::Arena>& arena() const { return arena_; }

  /// The batch that fit is at, set before its callbacks are told of it.
  BatchInPlace batch;
  /// Set by a callback: the next run_batch() times every kernel and hands this the times, in the
  /// order of the plan's steps, once.
  std::function<void(const plan::Plan&, const std::vector<runtime::StepTime>&)> profile;
  /// One step on `batch`.
  void run_batch();
  /// Forgets `batch` and `profile`.
  void leave_batch();

  /// The last of them, oldest first, for the error that ends training.
  [[nodiscard]] const std::vector<SkippedStep>& skips() const { return skips_; }
  [[nodiscard]] const std::vector<RangeSample>& range_samples() const { return range_samples_; }
  void add_skip(const SkippedStep& skip);
  void add_range_sample(RangeSample sample);

  /// The next batch of training, kept up to date by fit; part of a checkpoint.
  TrainingPosition position;
  /// Key of random layers; part of a checkpoint. Changing it drops the compiled steps.
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  void set_seed(std::uint64_t seed);

 private:
  /// A step that is planned and not to be run.
  struct Trial {
    const LayerGraph& model;
    const StepSpec& spec;
    const plan::Plan& plan;
    const Optimizer* optimizer;  ///< null unless it trains
    const Backend& backend;
  };
  /// Plans the step that the options of memory_plan ask for, and shows it to `look`.
  void plan_trial(std::int64_t batch_size, const MemoryPlanOptions& options,
                  const std::string& where, const std::function<void(const Trial&)>& look) const;
  void plan_trial_of(const LayerGraph& model, std::int64_t batch_size,
                     const MemoryPlanOptions& options, const std::string& where,
                     const std::function<void(const Trial&)>& look) const;
  /// Notes the arrays of the feeds of `spec` in it, if they lie on the device.
  void take_from_device(StepSpec& spec) const;
  std::vector<std::shared_ptr<VariableState>> drop_device_data();
  /// Fills arrays_, with arrays of `old` where their types fit, which are taken out of it.
  void copy_to_device(const std::map<StepMode, std::vector<internal::DataSource>>& sources,
                      std::vector<std::shared_ptr<VariableState>>& old);
  void drop_programs_that_read(const std::vector<std::shared_ptr<VariableState>>& arrays);
  [[nodiscard]] std::shared_ptr<Program> compile(const StepSpec& spec, const Dataset& data,
                                                 const std::string& where);
  /// compile(); data sets on the device make room for a step that does not fit beside them.
  [[nodiscard]] std::shared_ptr<Program> compile_in_room(StepSpec spec, const Dataset& data,
                                                         const std::string& where);
  /// training(), which recomputes to fit beside the input buffers of the programs that there are.
  [[nodiscard]] std::optional<TrainingSpec> training_for_next_program() const;
  /// What all programs of this model hold together, and `another` one, if it is not null; with the
  /// optimizer's slots if one `trains`.
  [[nodiscard]] PlannedBytes planned_bytes(const plan::Plan* another, bool trains) const;
  /// Throws OutOfMemory "[where] …" if a program for `spec`, planned as `plan`, does not fit.
  void check_memory(const plan::Plan& plan, const Dataset& data, const StepSpec& spec,
                    const std::string& where) const;
  static Logs logs_of(const std::vector<Accumulator>& accumulators);
  static void reset(const std::vector<Accumulator>& accumulators);

  const LayerGraph& model_;
  CompileOptions options_;
  std::optional<TrainingSpec> training_;
  StepState state_;
  std::shared_ptr<runtime::Arena> arena_;
  bool is_synchronous_ = true;
  bool trains_ = false;  ///< the optimizer's slots are on the device
  std::uint64_t seed_ = 0;
  std::vector<SkippedStep> skips_;
  std::vector<RangeSample> range_samples_;
  std::vector<std::shared_ptr<Program>> programs_;  ///< least recently used first
  /// What keep_on_device keeps, by mode, in the order of inputs and targets.
  std::map<StepMode, std::vector<std::shared_ptr<VariableState>>> arrays_;
};

}  // namespace demi
