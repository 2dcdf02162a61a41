// Layer: creates its variables once (`build`) and composes ops on symbolic values (`call`).
//
// A layer of one's own:
//   class Scale : public demi::LayerOf<Scale> {
//    public:
//     Scale() : LayerOf({.class_name = "Scale"}) {}
//     void build(const demi::Shape& input_shape) override {
//       factor_ = add_weight({.name = "factor", .shape = {input_shape[-1]}, .initializer =
//       "ones"});
//     }
//     demi::SymbolicTensor call(const demi::SymbolicTensor& x, const demi::CallContext&) override {
//       return x * factor_;
//     }
//    private:
//     demi::Variable factor_;
//   };
// Layers may be members of layers: those called inside `call` belong to the outer one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <demi/config.h>
#include <demi/dtype_policy.h>
#include <demi/initializers.h>
#include <demi/regularizers.h>
#include <demi/symbolic_tensor.h>
#include <demi/variable.h>

namespace demi {

namespace internal {
struct LayerState;
class CallFrame;
}  // namespace internal

/// How a layer is called: in a training step or not.
struct CallContext {
  bool training = false;
};

/// Argument of Layer::add_weight.
struct WeightOptions {
  std::string name = {};  ///< unique within the layer
  Shape shape = {};
  Initializer initializer = "glorot_uniform";
  bool trainable = true;
  bool autocast = true;  ///< read in the layer's compute dtype; false: always as stored
  std::optional<Regularizer> regularizer = std::nullopt;
  std::optional<DType> dtype = std::nullopt;  ///< nullopt: the policy's variable dtype
};

/// What every layer has.
struct LayerSetup {
  std::string class_name =
      {};                 ///< "Conv2D": in summaries and JSON, and "conv2d" in automatic names
  std::string name = {};  ///< "": automatic, "conv2d", "conv2d_1", …
  std::optional<DTypePolicy> dtype = std::nullopt;  ///< nullopt: the global policy of this moment
  bool trainable = true;
};

/// Copies share name, policy and variables: they are the same layer. Derive from LayerOf.
class Layer {
 public:
  virtual ~Layer() = default;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& class_name() const;
  /// How error messages call the layer: "dense_1", or "Dense 'head'" if the name does not tell.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] const DTypePolicy& dtype_policy() const;
  /// Whether the variables exist.
  [[nodiscard]] bool built() const;
  [[nodiscard]] bool trainable() const;
  /// A frozen layer's variables are not trained and its BatchNormalizations use their running
  /// statistics. Takes effect at the next Model::compile.
  void set_trainable(bool trainable);

  /// In the order of creation; those of inner layers after the layer's own.
  [[nodiscard]] std::vector<Variable> variables() const;
  [[nodiscard]] std::vector<Variable> trainable_variables() const;
  [[nodiscard]] std::vector<Variable> non_trainable_variables() const;
  /// Number of elements of all variables.
  [[nodiscard]] std::int64_t count_params() const;

  /// Calls the layer on values made by demi::Input, by layers and by demi::ops. Throws
  /// std::invalid_argument if it does not take them, or gives more than one value.
  SymbolicTensor operator()(const SymbolicTensor& input);
  SymbolicTensor operator()(const std::vector<SymbolicTensor>& inputs);
  /// The same for any number of results.
  std::vector<SymbolicTensor> apply(const std::vector<SymbolicTensor>& inputs);

  // --- what a layer overrides ---

  /// Creates the variables with add_weight. The first extent of a shape is the batch and unknown.
  virtual void build(const Shape& /*input_shape*/) {}
  /// Of layers with several inputs; by default `build` of the first.
  virtual void build_many(const std::vector<Shape>& input_shapes);
  /// The result for `x`, written with demi::ops, variables and inner layers. Called anew for each
  /// graph that is compiled, so it must not depend on anything but its arguments and the options.
  virtual SymbolicTensor call(const SymbolicTensor& x, const CallContext& context);
  /// Of layers with several inputs or results; by default `call` of the only input.
  virtual std::vector<SymbolicTensor> call_many(const std::vector<SymbolicTensor>& inputs,
                                                const CallContext& context);
  /// Everything needed to construct the layer again: "name", "trainable" and "dtype" here, to which
  /// layers add their options under Keras' names.
  [[nodiscard]] virtual Config get_config() const;
  /// A copy (of LayerOf).
  [[nodiscard]] virtual std::shared_ptr<Layer> clone() const = 0;

  /// What copies share (for the compiler).
  [[nodiscard]] const std::shared_ptr<internal::LayerState>& state() const { return state_; }

 protected:
  /// Throws std::invalid_argument for a name with '/'.
  explicit Layer(LayerSetup setup);
  Layer(const Layer&) = default;
  Layer& operator=(const Layer&) = default;

  /// Creates a variable named "<layer path>/<name>", or returns the one that a copy of this layer
  /// has created. Throws std::invalid_argument for unknown extents, or if that one has another
  /// shape.
  Variable add_weight(const WeightOptions& options);
  /// Adds a scalar to the loss of the model; only inside `call`.
  void add_loss(const SymbolicTensor& loss);
  /// Key of the random numbers of this call: differs between layers, between calls of one layer and
  /// with the seed of training. With `random_step`, what ops::dropout needs. Only inside `call`.
  [[nodiscard]] std::uint64_t random_key() const;
  /// int64 scalar: the number of training steps so far.
  [[nodiscard]] SymbolicTensor random_step() const;

 private:
  friend class internal::CallFrame;

  std::shared_ptr<internal::LayerState> state_;
  bool bound_ = false;  ///< build() has run on this object, so its members hold the variables
};

/// Base of every layer class: `class Dense : public LayerOf<Dense>`.
template <class Derived>
class LayerOf : public Layer {
 public:
  [[nodiscard]] std::shared_ptr<Layer> clone() const override {
    return std::make_shared<Derived>(static_cast<const Derived&>(*this));
  }

 protected:
  explicit LayerOf(LayerSetup setup) : Layer(std::move(setup)) {}
};

/// Lets Model::from_json make layers of a class of one's own: `make` gets what get_config returned;
/// "name", "trainable" and "dtype" are restored afterwards. Throws std::invalid_argument if the
/// name is taken.
void register_layer(const std::string& class_name,
                    std::function<std::shared_ptr<Layer>(const Config&)> make);

/// Lets automatic names start anew ("conv2d", "conv2d_1", …). They are counted per process.
void reset_layer_names();

}  // namespace demi
