// Optimizer: turns gradients into updates of variables, as nodes of the graph of a training step.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <demi/config.h>
#include <demi/symbolic_tensor.h>
#include <demi/variable.h>

namespace demi {

struct GradientAndVariable {
  SymbolicTensor gradient;  ///< empty where the loss does not depend on the variable: not updated
  Variable variable;
};

struct UpdateResult {
  SymbolicTensor finite;  ///< bool scalar: this step is applied; empty if every step is
};

/// What Model trains with. Derive an optimizer of one's own from OptimizerBase. Copies of an
/// optimizer share its state: counters, slots, learning rate.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;

  /// Creates the slots of `trainable`. Called again with the same variables it does nothing; throws
  /// std::invalid_argument for others.
  virtual void build(const std::vector<Variable>& trainable) = 0;

  /// The loss to differentiate instead of `loss` (a scalar). The identity but for loss scaling.
  [[nodiscard]] virtual SymbolicTensor scale_loss(const SymbolicTensor& loss) { return loss; }

  /// Writes the updates into the graph of the gradients, which are those of scale_loss(loss). Must
  /// be built, and the graph be the one being traced. Throws std::invalid_argument if no variable
  /// has a gradient.
  virtual UpdateResult apply(const std::vector<GradientAndVariable>& gradients,
                             const SymbolicTensor& loss) = 0;

  /// Everything a checkpoint must hold: counters, learning rate, slots. Names are unique.
  [[nodiscard]] virtual std::vector<Variable> variables() const = 0;

  /// Number of updates applied. Waits for the device, as do the functions below.
  [[nodiscard]] virtual std::int64_t iterations() const = 0;

  /// The learning rate of the next update.
  [[nodiscard]] virtual double learning_rate() const = 0;
  /// Takes effect at the next step, without compiling anew. Throws std::invalid_argument if the
  /// rate follows a schedule, is negative or not finite.
  virtual void set_learning_rate(double value) = 0;

  /// With use_ema, replaces the variables by their moving averages; fit does so at its end.
  virtual void finalize_variable_values() = 0;

  /// "Adam": the class in configs.
  [[nodiscard]] virtual std::string class_name() const = 0;
  /// The options under Keras' names.
  [[nodiscard]] virtual Config get_config() const = 0;

 protected:
  Optimizer() = default;
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;
};

/// The optimizer that Model::compile is given: any optimizer, or its name ("adam").
class OptimizerSpec {
 public:
  OptimizerSpec() = default;  ///< none
  // NOLINTBEGIN(google-explicit-constructor): written as the argument it is
  template <class T>
  requires std::derived_from<T, Optimizer> OptimizerSpec(T optimizer)
      : optimizer_(std::make_shared<T>(std::move(optimizer))) {}
  template <class T>
  requires std::derived_from<T, Optimizer> OptimizerSpec(std::shared_ptr<T> optimizer)
      : optimizer_(std::move(optimizer)) {}
  /// With default options. Throws std::invalid_argument, with a suggestion, for an unknown name.
  OptimizerSpec(const char* name);
  OptimizerSpec(const std::string& name);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] explicit operator bool() const { return optimizer_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<Optimizer>& get() const { return optimizer_; }

 private:
  std::shared_ptr<Optimizer> optimizer_;
};

/// {"class_name": …, "config": {…}}, and back. Throws std::invalid_argument for an unknown class or
/// option, with a suggestion.
[[nodiscard]] Config optimizer_to_config(const Optimizer& optimizer);
[[nodiscard]] std::shared_ptr<Optimizer> optimizer_from_config(const Config& config);

}  // namespace demi
