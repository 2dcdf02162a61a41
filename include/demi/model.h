// Model: a graph of layers that is trained and used as one. Sequential: layers in a row.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <demi/layer.h>
#include <demi/memory.h>
#include <demi/precision.h>
#include <demi/symbolic_tensor.h>
#include <demi/tensor.h>
#include <demi/training.h>
#include <demi/variable.h>

namespace demi {

struct ModelImpl;

/// One or several values: written as `x` or `{x, y}`.
class SymbolicTensors : public std::vector<SymbolicTensor> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a value is a list of one
  SymbolicTensors(SymbolicTensor value) : vector{std::move(value)} {}
  SymbolicTensors(std::initializer_list<SymbolicTensor> values) : vector(values) {}
  SymbolicTensors(std::vector<SymbolicTensor> values) : vector(std::move(values)) {}
  // NOLINTEND(google-explicit-constructor)
};

struct ModelOptions {
  std::string name = {};  ///< "": automatic, "functional", "functional_1", …
};

struct SummaryOptions {
  std::int64_t batch_size = 32;
};

/// Cheap to copy: copies are the same model.
///
/// Values that the user sees have an unknown batch extent. A model's outputs are float32, float64
/// if the layer they come from computes in float64, or integers.
class Model {
 public:
  /// The layers and ops that lead from `inputs` to `outputs`. Throws std::invalid_argument
  /// "[model] …" if an output does not depend on the inputs alone, an input leads to no output, or
  /// two different layers have the same name.
  Model(const SymbolicTensors& inputs, const SymbolicTensors& outputs,
        const ModelOptions& options = {});

  [[nodiscard]] const std::string& name() const;
  /// Whether the layers' variables exist: always, but for a Sequential without an Input.
  [[nodiscard]] bool built() const;
  /// Each layer once, in the order of their first call. (Inputs are not layers.)
  [[nodiscard]] const std::vector<std::shared_ptr<Layer>>& layers() const;
  /// Throws std::invalid_argument, with a suggestion, if there is none of that name.
  [[nodiscard]] const std::shared_ptr<Layer>& get_layer(std::string_view name) const;

  /// Those of all layers, in the order of `layers()`.
  [[nodiscard]] std::vector<Variable> variables() const;
  [[nodiscard]] std::vector<Variable> trainable_variables() const;
  [[nodiscard]] std::vector<Variable> non_trainable_variables() const;
  /// Number of elements of all variables.
  [[nodiscard]] std::int64_t count_params() const;

  /// Prints to `out` or standard output a table of the layers: shape and dtype of the result,
  /// number of parameters, and the bytes that a training step keeps of the layer for its backward
  /// half, as planned for the CPU and for batches of `options.batch_size` (nothing is allocated to
  /// find out). After compile() with a loss also what a training step takes on its device in all.
  void summary(std::ostream& out, const SummaryOptions& options = {}) const;
  void summary(const SummaryOptions& options = {}) const;

  /// The architecture as Keras 3 writes it; `indent` < 0: on one line. Throws std::invalid_argument
  /// if a layer cannot be described, or ops are used outside of layers.
  [[nodiscard]] std::string to_json(int indent = -1) const;
  /// A model with new weights from such text, also from Keras' own. Layers of one's own must have
  /// been registered with register_layer. Throws std::invalid_argument.
  [[nodiscard]] static Model from_json(std::string_view json);

  /// The values of variables(), in their dtypes.
  [[nodiscard]] std::vector<Tensor> get_weights() const;
  /// Converts each tensor to its variable's dtype. Changes nothing and throws std::invalid_argument
  /// unless number and shapes agree.
  void set_weights(const std::vector<Tensor>& weights);

  /// All variables as float32, whatever the policy, in one safetensors file. A variable's key is
  /// its path, "conv2d/kernel", where automatic layer names are counted within this model. The file
  /// appears complete or not at all. Throws std::runtime_error if it cannot be written.
  void save_weights(const std::string& path) const;
  /// Reads such a file into a model of the same architecture under any policy. Changes nothing and
  /// throws std::invalid_argument, naming every key that is missing, unexpected or of another
  /// shape, unless all agree; std::runtime_error if the file cannot be read.
  void load_weights(const std::string& path);

  // --- training ---

  /// Chooses device, optimizer, loss and metrics; forgets what was compiled before. Throws
  /// std::invalid_argument if they do not fit the model (a Sequential of unknown input: when it is
  /// built), DeviceError if the device is not there.
  void compile(const CompileOptions& options);

  /// Trains. Throws std::invalid_argument "[fit] …" for data or options that do not fit the model,
  /// TrainingDiverged if the loss or too many gradients in a row are not finite, and whatever
  /// callbacks throw.
  History fit(const Dataset& data, const FitOptions& options = {});
  History fit(const Tensor& x, const Tensor& y, const FitOptions& options = {});

  /// Loss and metrics over `data`: the mean over its samples.
  Logs evaluate(const Dataset& data, const EvaluateOptions& options = {});
  Logs evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options = {});

  /// The output for each sample, float32 [n, …] (float64 if its layer computes in float64); n may
  /// be 0. Targets are ignored. Needs no compile. Throws std::invalid_argument for a model with
  /// several outputs.
  [[nodiscard]] Tensor predict(const Dataset& data, const PredictOptions& options = {});
  [[nodiscard]] Tensor predict(const Tensor& x, const PredictOptions& options = {});
  /// One tensor for each output.
  [[nodiscard]] std::vector<Tensor> predict_all(const Dataset& data,
                                                const PredictOptions& options = {});

  /// One training step on all samples of `batch`; loss and metrics are those before the update.
  /// Throws TrainingDiverged after too many skipped steps in a row.
  Logs train_on_batch(const Dataset& batch);
  Logs train_on_batch(const Tensor& x, const Tensor& y);
  Logs test_on_batch(const Dataset& batch);
  Logs test_on_batch(const Tensor& x, const Tensor& y);

  /// Everything that the next step depends on, in one safetensors file: weights, optimizer, loss
  /// scale and its counters, random streams, and where fit stands in its data. The file appears
  /// complete or not at all. Throws std::runtime_error if it cannot be written.
  void save_checkpoint(const std::string& path) const;
  /// Puts that state into this model, compiled the same way, also in another process. Training that
  /// goes on with FitOptions::resume gives bit for bit what it would have given uninterrupted.
  /// Changes nothing and throws std::invalid_argument if the file is not a checkpoint of such a
  /// model, std::runtime_error if it cannot be read.
  TrainingPosition load_checkpoint(const std::string& path);

  /// The functions below throw std::invalid_argument if the model has not been compiled with a
  /// loss.
  [[nodiscard]] Optimizer& optimizer() const;
  /// Steps and loss scale; waits for the device.
  [[nodiscard]] TrainingStatus training_status() const;
  /// Where the memory of a step on `batch_size` samples goes: by category, by layer and over the
  /// step, exactly as it is allocated when that step is compiled (but for a device profile or
  /// another policy, for which nothing need be there). Runs and allocates nothing but the
  /// optimizer's slots on the host. Throws std::invalid_argument "[memory_plan] …" for a batch size
  /// below 1, an unknown policy or profile, a policy whose variables have another dtype than the
  /// model's, or data that do not fit; StepMode::kPredict needs no loss.
  [[nodiscard]] MemoryPlan memory_plan(std::int64_t batch_size,
                                       const MemoryPlanOptions& options = {}) const;
  /// In which precision each operation of such a step computes, on what, why some stay in float32,
  /// and what that costs; with hints. Options, errors "[precision_report] …" and all else as of
  /// memory_plan.
  [[nodiscard]] PrecisionPlan precision_report(std::int64_t batch_size,
                                               const MemoryPlanOptions& options = {}) const;
  /// "cpu".
  [[nodiscard]] std::string device() const;

  /// For the compiler.
  [[nodiscard]] ModelImpl& impl() const { return *impl_; }

 protected:
  explicit Model(std::shared_ptr<ModelImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<ModelImpl> impl_;
};

/// What Sequential is made of: the value of demi::Input, or a layer.
class SequentialItem {
 public:
  // NOLINTBEGIN(google-explicit-constructor): layers and inputs are items
  SequentialItem(SymbolicTensor input) : input_(std::move(input)) {}
  template <class L>
  requires std::is_base_of_v<Layer, L> SequentialItem(const L& layer) : layer_(layer.clone()) {}
  SequentialItem(std::shared_ptr<Layer> layer) : layer_(std::move(layer)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const SymbolicTensor& input() const { return input_; }
  [[nodiscard]] const std::shared_ptr<Layer>& layer() const { return layer_; }

 private:
  SymbolicTensor input_;
  std::shared_ptr<Layer> layer_;
};

/// Layers with one input and one output, one after the other.
class Sequential : public Model {
 public:
  /// `items` are layers, the first of them optionally a demi::Input. Without it the variables are
  /// created when the shape is known: by `build` or by training. Throws std::invalid_argument
  /// "[sequential] …" for inputs elsewhere or repeated layer names.
  Sequential(std::initializer_list<SequentialItem> items = {}, const ModelOptions& options = {});

  /// Appends a layer (or an Input to an empty model).
  void add(const SequentialItem& item);
  /// Creates the variables for inputs of `input_shape`, whose first extent is the batch (-1:
  /// unknown). Throws std::invalid_argument if the model is built for another shape.
  void build(const Shape& input_shape);
};

}  // namespace demi
