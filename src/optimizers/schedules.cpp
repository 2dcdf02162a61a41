#include <demi/schedules.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "src/core/check.h"

namespace demi {
namespace {

void check(bool ok, const char* schedule, const std::string& message) {
  if (!ok) internal::fail_argument(schedule, message);
}

void check_rate(const char* where, const char* name, double value) {
  check(std::isfinite(value) && value >= 0, where,
        fmt::format("expected {} to be finite and not negative. Received: {}.", name, value));
}

void check_steps(const char* where, const char* name, double value) {
  check(std::isfinite(value) && value > 0, where,
        fmt::format("expected {} > 0. Received: {}.", name, value));
}

double share_of(std::int64_t step, double decay_steps, bool staircase) {
  const double share = static_cast<double>(step) / decay_steps;
  return staircase ? std::floor(share) : share;
}

// ---- Configs: Keras' class and argument names
// ----------------------------------------------------

const char* class_of(double) {
  return "float";
}
const char* class_of(const ExponentialDecay&) {
  return "ExponentialDecay";
}
const char* class_of(const InverseTimeDecay&) {
  return "InverseTimeDecay";
}
const char* class_of(const PiecewiseConstantDecay&) {
  return "PiecewiseConstantDecay";
}
const char* class_of(const PolynomialDecay&) {
  return "PolynomialDecay";
}
const char* class_of(const CosineDecay&) {
  return "CosineDecay";
}

Config arguments_of(double value) {
  return value;
}

template <class Decay>
Config decay_arguments(const Decay& d) {
  return Config::object({{"initial_learning_rate", d.initial_learning_rate},
                         {"decay_steps", d.decay_steps},
                         {"decay_rate", d.decay_rate},
                         {"staircase", d.staircase}});
}
Config arguments_of(const ExponentialDecay& d) {
  return decay_arguments(d);
}
Config arguments_of(const InverseTimeDecay& d) {
  return decay_arguments(d);
}

Config arguments_of(const PiecewiseConstantDecay& d) {
  return Config::object({{"boundaries", Config::integers(d.boundaries)},
                         {"values", Config::List(d.values.begin(), d.values.end())}});
}
Config arguments_of(const PolynomialDecay& d) {
  return Config::object({{"initial_learning_rate", d.initial_learning_rate},
                         {"decay_steps", d.decay_steps},
                         {"end_learning_rate", d.end_learning_rate},
                         {"power", d.power},
                         {"cycle", d.cycle}});
}
Config arguments_of(const CosineDecay& d) {
  return Config::object({{"initial_learning_rate", d.initial_learning_rate},
                         {"decay_steps", d.decay_steps},
                         {"alpha", d.alpha},
                         {"warmup_target", d.warmup_target ? Config(*d.warmup_target) : Config()},
                         {"warmup_steps", d.warmup_steps}});
}

/// Reads options of a config, leaving what is absent as it is.
class Reader {
 public:
  explicit Reader(const Config& config) : config_(config) {}

  void read(const char* key, double& value) const {
    if (const Config* found = find(key)) value = found->as_number();
  }
  void read(const char* key, bool& value) const {
    if (const Config* found = find(key)) value = found->as_bool();
  }
  void read(const char* key, std::optional<double>& value) const {
    if (const Config* found = find(key)) value = found->as_number();
  }
  template <class Decay>
  void read_decay(Decay& d) const {
    read("initial_learning_rate", d.initial_learning_rate);
    read("decay_steps", d.decay_steps);
    read("decay_rate", d.decay_rate);
    read("staircase", d.staircase);
  }

 private:
  [[nodiscard]] const Config* find(const char* key) const {
    const Config* found = config_.find(key);
    return found != nullptr && !found->is_null() ? found : nullptr;
  }
  const Config& config_;
};

PiecewiseConstantDecay piecewise_from(const Config& config) {
  PiecewiseConstantDecay d;
  for (const Config& boundary : config.at("boundaries").as_list()) {
    d.boundaries.push_back(boundary.as_integer());
  }
  for (const Config& value : config.at("values").as_list()) d.values.push_back(value.as_number());
  return d;
}

PolynomialDecay polynomial_from(const Config& config) {
  const Reader reader(config);
  PolynomialDecay d;
  reader.read("initial_learning_rate", d.initial_learning_rate);
  reader.read("decay_steps", d.decay_steps);
  reader.read("end_learning_rate", d.end_learning_rate);
  reader.read("power", d.power);
  reader.read("cycle", d.cycle);
  return d;
}

CosineDecay cosine_from(const Config& config) {
  const Reader reader(config);
  CosineDecay d;
  reader.read("initial_learning_rate", d.initial_learning_rate);
  reader.read("decay_steps", d.decay_steps);
  reader.read("alpha", d.alpha);
  reader.read("warmup_target", d.warmup_target);
  reader.read("warmup_steps", d.warmup_steps);
  return d;
}

template <class Decay>
Decay decay_from(const Config& config) {
  Decay d;
  Reader(config).read_decay(d);
  return d;
}

}  // namespace

double ExponentialDecay::operator()(std::int64_t step) const {
  return initial_learning_rate * std::pow(decay_rate, share_of(step, decay_steps, staircase));
}

double InverseTimeDecay::operator()(std::int64_t step) const {
  return initial_learning_rate / (1 + decay_rate * share_of(step, decay_steps, staircase));
}

double PiecewiseConstantDecay::operator()(std::int64_t step) const {
  const auto place = std::lower_bound(boundaries.begin(), boundaries.end(), step);
  return values[static_cast<std::size_t>(place - boundaries.begin())];
}

double PolynomialDecay::operator()(std::int64_t step) const {
  const auto done = static_cast<double>(step);
  const double periods = cycle && step > 0 ? std::ceil(done / decay_steps) : 1;
  const double share = std::min(done / (decay_steps * periods), 1.0);
  return (initial_learning_rate - end_learning_rate) * std::pow(1 - share, power) +
         end_learning_rate;
}

double CosineDecay::operator()(std::int64_t step) const {
  auto done = static_cast<double>(step);
  double start = initial_learning_rate;
  if (warmup_target) {
    if (done < warmup_steps) return start + (*warmup_target - start) * (done / warmup_steps);
    done -= warmup_steps;
    start = *warmup_target;
  }
  const double share = std::min(done / decay_steps, 1.0);
  return start * ((1 - alpha) * 0.5 * (1 + std::cos(std::numbers::pi * share)) + alpha);
}

LearningRate::LearningRate(double value) : schedule_(value) {
  check_rate("learning_rate", "the learning rate", value);
}

LearningRate::LearningRate(ExponentialDecay d) : schedule_(d) {
  check_rate("exponential_decay", "initial_learning_rate", d.initial_learning_rate);
  check_rate("exponential_decay", "decay_rate", d.decay_rate);
  check_steps("exponential_decay", "decay_steps", d.decay_steps);
}

LearningRate::LearningRate(InverseTimeDecay d) : schedule_(d) {
  check_rate("inverse_time_decay", "initial_learning_rate", d.initial_learning_rate);
  check_rate("inverse_time_decay", "decay_rate", d.decay_rate);
  check_steps("inverse_time_decay", "decay_steps", d.decay_steps);
}

LearningRate::LearningRate(PiecewiseConstantDecay d) : schedule_(d) {
  check(d.values.size() == d.boundaries.size() + 1, "piecewise_constant_decay",
        fmt::format("expected one value more than boundaries. Received: {} values and {} "
                    "boundaries.",
                    d.values.size(), d.boundaries.size()));
  const bool ascending = std::adjacent_find(d.boundaries.begin(), d.boundaries.end(),
                                            std::greater_equal<>()) == d.boundaries.end();
  check(ascending, "piecewise_constant_decay", "expected ascending boundaries.");
  for (const double value : d.values) {
    check_rate("piecewise_constant_decay", "every value", value);
  }
}

LearningRate::LearningRate(PolynomialDecay d) : schedule_(d) {
  check_rate("polynomial_decay", "initial_learning_rate", d.initial_learning_rate);
  check_rate("polynomial_decay", "end_learning_rate", d.end_learning_rate);
  check_rate("polynomial_decay", "power", d.power);
  check_steps("polynomial_decay", "decay_steps", d.decay_steps);
}

LearningRate::LearningRate(CosineDecay d) : schedule_(d) {
  check_rate("cosine_decay", "initial_learning_rate", d.initial_learning_rate);
  check_rate("cosine_decay", "alpha", d.alpha);
  check_rate("cosine_decay", "warmup_target", d.warmup_target.value_or(0));
  check_rate("cosine_decay", "warmup_steps", d.warmup_steps);
  check_steps("cosine_decay", "decay_steps", d.decay_steps);
}

double LearningRate::at(std::int64_t step) const {
  return std::visit(
      [step](const auto& schedule) {
        if constexpr (std::is_same_v<decltype(schedule), const double&>) {
          return schedule;
        } else {
          return schedule(step);
        }
      },
      schedule_);
}

Config LearningRate::get_config() const {
  if (is_constant()) return std::get<double>(schedule_);
  return std::visit(
      [](const auto& schedule) {
        return Config::object(
            {{"class_name", class_of(schedule)}, {"config", arguments_of(schedule)}});
      },
      schedule_);
}

LearningRate LearningRate::from_config(const Config& config) {
  if (config.is_number()) return config.as_number();
  using Make = LearningRate (*)(const Config&);
  static constexpr std::array<std::pair<const char*, Make>, 5> kClasses = {{
      {"ExponentialDecay",
       [](const Config& c) -> LearningRate { return decay_from<ExponentialDecay>(c); }},
      {"InverseTimeDecay",
       [](const Config& c) -> LearningRate { return decay_from<InverseTimeDecay>(c); }},
      {"PiecewiseConstantDecay", [](const Config& c) -> LearningRate { return piecewise_from(c); }},
      {"PolynomialDecay", [](const Config& c) -> LearningRate { return polynomial_from(c); }},
      {"CosineDecay", [](const Config& c) -> LearningRate { return cosine_from(c); }},
  }};
  const std::string& name = config.at("class_name").as_string();
  std::vector<std::string> names;
  for (const auto& [known, make] : kClasses) {
    if (name == known) return make(config.at("config"));
    names.emplace_back(known);
  }
  internal::fail_argument(
      "learning_rate",
      fmt::format("expected a number or one of the schedules {}. Received: '{}'.{}",
                  fmt::join(names, ", "), name, internal::did_you_mean(name, names)));
}

}  // namespace demi
