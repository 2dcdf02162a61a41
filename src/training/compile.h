// Compilation: from a layer graph to programs that run one step. The whole path is in plan_step():
// trace, passes, plan.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <demi/losses.h>
#include <demi/memory.h>
#include <demi/optimizers/optimizer.h>
#include <demi/training.h>
#include <demi/variable.h>

#include "src/runtime/executor.h"

namespace demi {

struct LayerGraph;

/// One input or target of a step as it lies in the data set: fed as stored, then x · scale + offset
/// in the graph.
struct FeedSpec {
  std::string name;
  TensorType type;  ///< with the batch as first extent
  double scale = 1;
  double offset = 0;
  /// The whole array, where it lies on the device: the step is fed with numbers of rows. Of all
  /// feeds of a step or of none.
  std::shared_ptr<VariableState> array = nullptr;
};

/// What a program is compiled for.
struct StepSpec {
  StepMode mode = StepMode::kPredict;
  std::vector<FeedSpec> inputs;   ///< one per model input
  std::vector<FeedSpec> targets;  ///< one per model output; none for kPredict
  std::uint64_t seed = 0;         ///< of dropout

  [[nodiscard]] bool gathers_rows() const { return inputs.at(0).array != nullptr; }
};

/// A number reported per epoch besides the loss: the mean over samples of function(y_true, y_pred).
struct ReportedMetric {
  std::string name;
  std::size_t output = 0;  ///< which model output and target it looks at
  TargetFunction function;
};

/// What Model::compile was given.
struct TrainingSpec {
  std::vector<LossSpec> losses;         ///< one per model output; an empty one is not trained on
  std::vector<double> loss_weights;     ///< empty: all 1
  std::vector<std::string> loss_names;  ///< one per output, reported when several are trained on
  std::vector<ReportedMetric> metrics;
  std::shared_ptr<Optimizer> optimizer;
  Recompute recompute;
  std::size_t memory_limit = 0;  ///< for Recompute::is_auto(); 0: what the backend has
};

/// Sums of one reported number since the last reset; they live on the device. Non-finite values are
/// counted but not added, so that a skipped step does not spoil the mean of its epoch.
struct Accumulator {
  std::string name;
  Variable total;       ///< float64
  Variable weight;      ///< float64, samples
  Variable non_finite;  ///< int64, steps

  /// total / weight, 0 without samples. Waits for the device.
  [[nodiscard]] double mean() const;
  void reset() const;
};

/// State that the programs of one model share, besides its weights and its optimizer.
struct StepState {
  Variable steps;                     ///< int64: training steps seen, also the random step counter
  std::vector<Accumulator> train;     ///< "loss", per-output losses, metrics
  std::vector<Accumulator> evaluate;  ///< the same for evaluation
};
[[nodiscard]] StepState make_step_state(const TrainingSpec& spec);

/// A compiled step. Two sets of input buffers, so that one can be filled during a run of the other.
class Program {
 public:
  static constexpr int kBuffers = 2;

  Program(StepSpec spec, std::shared_ptr<const plan::Plan> plan,
          std::shared_ptr<runtime::Arena> arena);

  [[nodiscard]] const StepSpec& spec() const { return spec_; }
  [[nodiscard]] const plan::Plan& plan() const { return executor_.plan(); }

  /// Host memory for the numbers of the rows, one a sample, of a step that gathers them.
  [[nodiscard]] std::int64_t* row_numbers(int buffer) {
    return static_cast<std::int64_t*>(executor_.feed(0, buffer));
  }
  /// Host memory for input `index` or target `index`, row-major, of the spec's type; of a step that
  /// is fed with samples.
  [[nodiscard]] void* input(std::size_t index, int buffer) { return executor_.feed(index, buffer); }
  [[nodiscard]] void* target(std::size_t index, int buffer) {
    return executor_.feed(spec_.inputs.size() + index, buffer);
  }

  /// One step on the data in `buffer`. Training updates weights, slots and StepState::train;
  /// evaluation StepState::evaluate.
  void run(int buffer) { executor_.run(buffer); }
  /// The same, one kernel at a time; when each step of the plan ran.
  std::vector<runtime::StepTime> run_timed(int buffer) { return executor_.run_timed(buffer); }

  /// Model output `index` of the last run (kPredict only), float32 (float64 under that policy).
  [[nodiscard]] Tensor output(std::size_t index) const { return executor_.output(index); }

  /// Where a NaN or infinity first arises on the data in `buffer`; changes no state.
  [[nodiscard]] std::optional<runtime::NonFinite> first_non_finite(int buffer) {
    return executor_.first_non_finite(buffer);
  }

 private:
  StepSpec spec_;
  runtime::Executor executor_;
};

/// Compiles one step of `model` for a backend, as far as nothing is allocated but the optimizer's
/// slots: trace, passes, kernels, memory plan. `training` and `state` may be null for kPredict. For
/// kTrain the optimizer creates its slots and the variables move to the backend.
[[nodiscard]] std::shared_ptr<const plan::Plan> plan_step(const LayerGraph& model,
                                                          const StepSpec& spec,
                                                          const TrainingSpec* training,
                                                          const StepState* state, Backend& backend);

/// How an observed step computes.
enum class Precision {
  kAsTrained,
  kFloat32,  ///< what is computed in 16 bits in training is float32, and the loss is not scaled
};

/// Forward and backward half of a training step. Its outputs are the gradients, under the names of
/// their variables, in the order of trainable_variables(); variables that the loss does not depend
/// on are missing.
struct ObservedPlan {
  std::shared_ptr<const plan::Plan> plan;
  /// With Precision::kFloat32: the values that are 16 bits wide in training, and as what. Of a
  /// model that computes in float32 throughout: those that would be under mixed_float16.
  std::map<ir::ValueId, DType> narrow;
};

/// Compiles a training step to be looked at. Arguments as of plan_step.
[[nodiscard]] ObservedPlan plan_observed_step(const LayerGraph& model, const StepSpec& spec,
                                              const TrainingSpec& training, const StepState& state,
                                              Backend& backend, Precision precision);

/// Bytes that a training step keeps for its backward half, by layer path, for float32 inputs and a
/// gradient given for every output; plans for the CPU, allocates nothing.
[[nodiscard]] std::map<std::string, std::size_t> planned_activation_bytes(const LayerGraph& model,
                                                                          std::int64_t batch_size);

}  // namespace demi
