#include "src/training/checkpoint.h"

#include <cstdint>
#include <exception>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <demi/optimizers/loss_scale_optimizer.h>

#include "src/core/check.h"
#include "src/io/safetensors.h"

namespace demi::internal {
namespace {

constexpr const char* kFormat = "demi.checkpoint";
constexpr const char* kVersion = "1";

/// Every variable that the next step depends on, by its key in the file.
std::map<std::string, Variable> all_variables(const NamedVariables& weights,
                                              const Trainer& trainer) {
  std::map<std::string, Variable> all;
  for (const auto& [name, variable] : weights) all.emplace("model/" + name, variable);
  Optimizer& optimizer = *trainer.training()->optimizer;
  optimizer.build(trainer.model().trainable_variables());  // the slots, before the first step
  int index = 0;
  for (const Variable& variable : optimizer.variables()) {
    all.emplace(fmt::format("optimizer/{:04}", index++), variable);
  }
  all.emplace("state/steps", trainer.state().steps);
  for (const Accumulator& sum : trainer.state().train) {
    all.emplace("epoch/" + sum.name + "/total", sum.total);
    all.emplace("epoch/" + sum.name + "/weight", sum.weight);
    all.emplace("epoch/" + sum.name + "/non_finite", sum.non_finite);
  }
  return all;
}

std::string type_name(DType dtype, const Shape& shape) {
  return std::string(to_string(dtype)) + shape.to_string();
}

/// What is different between the file and the variables, one sentence each; empty if nothing.
std::string differences(const io::TensorMap& tensors,
                        const std::map<std::string, Variable>& variables) {
  std::string text;
  for (const auto& [key, variable] : variables) {
    const auto found = tensors.find(key);
    if (found == tensors.end()) {
      text += " '" + key + "' (" + variable.name() + ") is missing.";
    } else if (found->second.shape() != variable.shape() ||
               found->second.dtype() != variable.dtype()) {
      text += " '" + key + "' (" + variable.name() + ") is " +
              type_name(found->second.dtype(), found->second.shape()) + " instead of " +
              type_name(variable.dtype(), variable.shape()) + ".";
    }
  }
  for (const auto& [key, tensor] : tensors) {
    if (variables.count(key) == 0) text += " '" + key + "' is not known.";
  }
  return text;
}

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& message) {
  fail_argument("load_checkpoint", message + " File: " + path.string() + ".");
}

struct Saved {
  TrainingPosition position;
  std::uint64_t seed = 0;
};

Saved read_metadata(const std::filesystem::path& path, const io::Metadata& metadata,
                    const std::string& optimizer) {
  const auto value = [&](const std::string& key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (value("format") != kFormat || value("version") != kVersion) {
    fail(path, fmt::format("expected a training checkpoint of version {}. Received: a file of "
                           "format '{}', version '{}'.",
                           kVersion, value("format"), value("version")));
  }
  if (value("optimizer") != optimizer) {
    fail(path, "expected the state of the optimizer that the model is compiled with, " + optimizer +
                   ". Received: that of " + value("optimizer") + ".");
  }
  try {
    const nlohmann::json position = nlohmann::json::parse(value("position"));
    return {.position = {position.at("epoch").get<int>(), position.at("batch").get<std::int64_t>(),
                         position.at("seed").get<std::uint64_t>()},
            .seed = nlohmann::json::parse(value("seed")).get<std::uint64_t>()};
  } catch (const nlohmann::json::exception& error) {
    fail(path, std::string("expected a position and a seed in the metadata. Received: ") +
                   error.what() + ".");
  }
}

/// The class and those of what it wraps.
std::string optimizer_name(const Trainer& trainer) {
  const Optimizer& optimizer = *trainer.training()->optimizer;
  const LossScaleOptimizer* scaler = trainer.loss_scaler();
  return optimizer.class_name() + (scaler ? "(" + scaler->inner()->class_name() + ")" : "");
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const NamedVariables& weights,
                     const Trainer& trainer) {
  io::TensorMap tensors;
  for (const auto& [key, variable] : all_variables(weights, trainer)) {
    tensors.emplace(key, variable.value());
  }
  const TrainingPosition& at = trainer.position;
  const nlohmann::json position = {{"epoch", at.epoch}, {"batch", at.batch}, {"seed", at.seed}};
  io::write_safetensors(path, tensors,
                        {{"format", kFormat},
                         {"version", kVersion},
                         {"optimizer", optimizer_name(trainer)},
                         {"position", position.dump()},
                         {"seed", std::to_string(trainer.seed())}});
}

void load_checkpoint(const std::filesystem::path& path, const NamedVariables& weights,
                     Trainer& trainer) {
  const io::SafetensorsFile file = io::read_safetensors(path);
  const Saved saved = read_metadata(path, file.metadata, optimizer_name(trainer));
  const std::map<std::string, Variable> variables = all_variables(weights, trainer);
  const std::string different = differences(file.tensors, variables);
  if (!different.empty()) fail(path, "expected the state of this model." + different);
  for (const auto& [key, variable] : variables) variable.assign(file.tensors.at(key));
  trainer.position = saved.position;
  trainer.set_seed(saved.seed);
}

}  // namespace demi::internal
