// Learning rate schedules: Keras' names, arguments and formulas.
//
// A schedule gives the learning rate as a function of the number of updates applied so far; skipped
// steps do not advance it. Computed in float64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <demi/config.h>

namespace demi {

/// initial_learning_rate · decay_rate^(step / decay_steps).
struct ExponentialDecay {
  double initial_learning_rate = 0;
  double decay_steps = 1;
  double decay_rate = 1;
  bool staircase = false;  ///< step / decay_steps is rounded down
  [[nodiscard]] double operator()(std::int64_t step) const;
  friend bool operator==(const ExponentialDecay&, const ExponentialDecay&) = default;
};

/// initial_learning_rate / (1 + decay_rate · step / decay_steps).
struct InverseTimeDecay {
  double initial_learning_rate = 0;
  double decay_steps = 1;
  double decay_rate = 0;
  bool staircase = false;
  [[nodiscard]] double operator()(std::int64_t step) const;
  friend bool operator==(const InverseTimeDecay&, const InverseTimeDecay&) = default;
};

/// values[i] for the first i with step <= boundaries[i], else the last of the values, of which
/// there is one more than of boundaries.
struct PiecewiseConstantDecay {
  std::vector<std::int64_t> boundaries;  ///< ascending
  std::vector<double> values;
  [[nodiscard]] double operator()(std::int64_t step) const;
  friend bool operator==(const PiecewiseConstantDecay&, const PiecewiseConstantDecay&) = default;
};

/// (initial - end) · (1 - t)^power + end with t = min(step / decay_steps, 1); with `cycle`,
/// decay_steps is multiplied by the smallest integer that makes t <= 1.
struct PolynomialDecay {
  double initial_learning_rate = 0;
  double decay_steps = 1;
  double end_learning_rate = 1e-4;
  double power = 1;
  bool cycle = false;
  [[nodiscard]] double operator()(std::int64_t step) const;
  friend bool operator==(const PolynomialDecay&, const PolynomialDecay&) = default;
};

/// From initial_learning_rate to alpha times it along half a cosine in decay_steps. With
/// warmup_target, first linearly from initial_learning_rate to it in warmup_steps steps; the cosine
/// then starts there.
struct CosineDecay {
  double initial_learning_rate = 0;
  double decay_steps = 1;
  double alpha = 0;
  std::optional<double> warmup_target = std::nullopt;
  double warmup_steps = 0;
  [[nodiscard]] double operator()(std::int64_t step) const;
  friend bool operator==(const CosineDecay&, const CosineDecay&) = default;
};

/// A learning rate: a number or any schedule.
///   demi::Adam({.learning_rate = demi::CosineDecay{.initial_learning_rate = 1e-3,
///                                                  .decay_steps = 10000}})
class LearningRate {
 public:
  using Schedule = std::variant<double, ExponentialDecay, InverseTimeDecay, PiecewiseConstantDecay,
                                PolynomialDecay, CosineDecay>;

  // NOLINTBEGIN(google-explicit-constructor): written as the argument it is
  /// All throw std::invalid_argument for rates that are negative or not finite, steps that are not
  /// positive, and boundaries that do not ascend or do not fit the values.
  LearningRate(double value);
  LearningRate(ExponentialDecay schedule);
  LearningRate(InverseTimeDecay schedule);
  LearningRate(PiecewiseConstantDecay schedule);
  LearningRate(PolynomialDecay schedule);
  LearningRate(CosineDecay schedule);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool is_constant() const { return std::holds_alternative<double>(schedule_); }
  /// The learning rate after `step` updates.
  [[nodiscard]] double at(std::int64_t step) const;

  /// A number, or {"class_name", "config"} as Keras writes schedules.
  [[nodiscard]] Config get_config() const;
  /// Throws std::invalid_argument.
  [[nodiscard]] static LearningRate from_config(const Config& config);

  [[nodiscard]] const Schedule& schedule() const { return schedule_; }
  friend bool operator==(const LearningRate&, const LearningRate&) = default;

 private:
  Schedule schedule_;
};

}  // namespace demi
