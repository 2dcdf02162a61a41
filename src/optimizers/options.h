// How optimizers turn options into configs and back. Every option structure spells the common
// options like OptimizerOptions does, so that they can be written as designated initialisers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <demi/optimizers/optimizer_base.h>

namespace demi::internal {

/// The common part of an optimizer's options.
template <class Options>
[[nodiscard]] OptimizerOptions common_options(const Options& options) {
  return {.learning_rate = options.learning_rate,
          .weight_decay = options.weight_decay,
          .clipnorm = options.clipnorm,
          .clipvalue = options.clipvalue,
          .global_clipnorm = options.global_clipnorm,
          .use_ema = options.use_ema,
          .ema_momentum = options.ema_momentum,
          .ema_overwrite_frequency = options.ema_overwrite_frequency,
          .gradient_accumulation_steps = options.gradient_accumulation_steps,
          .name = options.name};
}

/// Reads a config key by key and refuses keys that nobody asked for.
class OptionReader {
 public:
  /// `where` names the optimizer in messages.
  OptionReader(const char* where, const Config& config) : where_(where), config_(config) {}

  void read(const char* key, bool& value) {
    if (const Config* found = find(key)) value = found->as_bool();
  }
  void read(const char* key, double& value) {
    if (const Config* found = find(key)) value = found->as_number();
  }
  void read(const char* key, std::int64_t& value) {
    if (const Config* found = find(key)) value = found->as_integer();
  }
  void read(const char* key, std::string& value) {
    if (const Config* found = find(key)) value = found->as_string();
  }
  void read(const char* key, LearningRate& value) {
    if (const Config* found = find(key)) value = LearningRate::from_config(*found);
  }
  template <class T>
  void read(const char* key, std::optional<T>& value) {
    if (find(key) == nullptr) return;
    T given{};
    read(key, given);
    value = given;
  }
  template <class Options>
  void read_common(Options& options) {
    read("name", options.name);
    read("learning_rate", options.learning_rate);
    read("weight_decay", options.weight_decay);
    read("clipnorm", options.clipnorm);
    read("clipvalue", options.clipvalue);
    read("global_clipnorm", options.global_clipnorm);
    read("use_ema", options.use_ema);
    read("ema_momentum", options.ema_momentum);
    read("ema_overwrite_frequency", options.ema_overwrite_frequency);
    read("gradient_accumulation_steps", options.gradient_accumulation_steps);
  }
  /// The value under `key`, counted as read; null if there is none or it is null.
  [[nodiscard]] const Config* find(const char* key) {
    known_.emplace_back(key);
    const Config* found = config_.find(key);
    return found != nullptr && !found->is_null() ? found : nullptr;
  }
  /// Throws std::invalid_argument, with a suggestion, if the config holds anything else.
  void finish() const;

 private:
  const char* where_;
  const Config& config_;
  std::vector<std::string> known_;
};

/// A config value that is null for an option that is not set.
template <class T>
[[nodiscard]] Config optional_config(const std::optional<T>& value) {
  return value ? Config(*value) : Config();
}

/// Throws std::invalid_argument "[where] expected name to be …. Received: value." unless `ok`.
void check_option(bool ok, const std::string& where, const char* name, const char* expected,
                  double value);

}  // namespace demi::internal
