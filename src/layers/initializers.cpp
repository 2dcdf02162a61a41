#include <demi/initializers.h>

#include <array>
#include <atomic>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "src/core/check.h"
#include "src/core/normal.h"
#include "src/core/philox.h"
#include "src/layers/keras_object.h"
#include "src/layers/layer_state.h"

namespace demi {
namespace {

using Definition = Initializer::Definition;
using Distribution = Initializer::Distribution;
using Fan = Initializer::Fan;

struct NamedInitializer {
  std::string_view name;
  Definition definition;
};

const std::vector<NamedInitializer>& named_initializers() {
  const auto scaled = [](const char* class_name, Distribution distribution, Fan fan, double scale) {
    return Definition{
        .class_name = class_name, .distribution = distribution, .fan = fan, .scale = scale};
  };
  constexpr Distribution kUniform = Distribution::kUniform;
  constexpr Distribution kTruncated = Distribution::kTruncatedNormal;
  static const std::vector<NamedInitializer> list = {
      {"zeros", {.class_name = "Zeros", .first = 0}},
      {"ones", {.class_name = "Ones", .first = 1}},
      {"constant", {.class_name = "Constant", .first = 0}},
      {"random_uniform",
       {.class_name = "RandomUniform", .distribution = kUniform, .first = -0.05, .second = 0.05}},
      {"random_normal",
       {.class_name = "RandomNormal", .distribution = Distribution::kNormal, .second = 0.05}},
      {"truncated_normal",
       {.class_name = "TruncatedNormal", .distribution = kTruncated, .second = 0.05}},
      {"glorot_uniform", scaled("GlorotUniform", kUniform, Fan::kAverage, 1)},
      {"glorot_normal", scaled("GlorotNormal", kTruncated, Fan::kAverage, 1)},
      {"he_uniform", scaled("HeUniform", kUniform, Fan::kIn, 2)},
      {"he_normal", scaled("HeNormal", kTruncated, Fan::kIn, 2)},
      {"lecun_uniform", scaled("LecunUniform", kUniform, Fan::kIn, 1)},
      {"lecun_normal", scaled("LecunNormal", kTruncated, Fan::kIn, 1)},
  };
  return list;
}

/// By Keras' name or class name.
const Definition& find_definition(std::string_view name) {
  std::vector<std::string_view> names;
  std::string valid;
  for (const NamedInitializer& initializer : named_initializers()) {
    if (initializer.name == name || initializer.definition.class_name == name) {
      return initializer.definition;
    }
    names.push_back(initializer.name);
    valid += fmt::format("{}'{}'", valid.empty() ? "" : ", ", initializer.name);
  }
  internal::fail_argument("initializer", fmt::format("expected one of {}. Received: '{}'.{}", valid,
                                                     name, internal::did_you_mean(name, names)));
}

Definition with_seed(const char* name, const initializers::SeedOptions& options) {
  Definition definition = find_definition(name);
  definition.seed = options.seed;
  return definition;
}

/// Inputs and outputs of one unit of a kernel: Keras' rule for every rank.
std::array<double, 2> fans(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double receptive_field = 1;
  for (int axis = 0; axis < shape.rank() - 2; ++axis) {
    receptive_field *= static_cast<double>(shape[axis]);
  }
  return {receptive_field * static_cast<double>(shape[-2]),
          receptive_field * static_cast<double>(shape[-1])};
}

/// Bounds of a uniform or mean and deviation of a normal distribution.
std::array<double, 2> parameters(const Definition& definition, const Shape& shape) {
  if (definition.fan == Fan::kNone) return {definition.first, definition.second};
  const auto [fan_in, fan_out] = fans(shape);
  const double fan = definition.fan == Fan::kIn ? fan_in : (fan_in + fan_out) / 2;
  const double variance = definition.scale / std::max(1.0, fan);
  if (definition.distribution == Distribution::kUniform) {
    const double limit = std::sqrt(3 * variance);
    return {-limit, limit};
  }
  // The deviation of a standard normal distribution cut off at ±2.
  constexpr double kTruncatedDeviation = 0.87962566103423978;
  const bool truncated = definition.distribution == Distribution::kTruncatedNormal;
  return {0, std::sqrt(variance) / (truncated ? kTruncatedDeviation : 1)};
}

float draw(Distribution distribution, std::array<double, 2> parameters, std::uint32_t word) {
  const auto [first, second] = parameters;
  switch (distribution) {
    case Distribution::kConstant:
      return static_cast<float>(first);
    case Distribution::kUniform:
      return static_cast<float>(first + (second - first) * philox_uniform(word));
    case Distribution::kNormal:
      return static_cast<float>(first + second * normal_float(word));
    case Distribution::kTruncatedNormal:
      return static_cast<float>(first + second * truncated_normal_float(word));
  }
  return 0;
}

}  // namespace

Initializer::Initializer(const std::string& name) : definition_(find_definition(name)) {}

Tensor Initializer::operator()(const Shape& shape, DType dtype, std::uint64_t seed) const {
  if (definition_.distribution == Distribution::kConstant) {
    return Tensor::full(shape, definition_.first, dtype);
  }
  Tensor values(shape, float32);
  const std::span<float> data = values.data<float>();
  const std::array<double, 2> range = parameters(definition_, shape);
  const std::uint64_t key = definition_.seed.value_or(seed);
  for (std::size_t i = 0; i < data.size(); i += 4) {
    const std::array<std::uint32_t, 4> words = philox4x32(key, i / 4, 0);
    for (std::size_t j = 0; j < 4 && i + j < data.size(); ++j) {
      data[i + j] = draw(definition_.distribution, range, words[j]);
    }
  }
  return values.to(dtype);
}

Config Initializer::get_config() const {
  const Config seed =
      definition_.seed ? Config(static_cast<std::int64_t>(*definition_.seed)) : Config();
  Config config = Config::object();
  if (definition_.class_name == "Constant") {
    config.set("value", definition_.first);
  } else if (definition_.class_name == "RandomUniform") {
    config.set("seed", seed);
    config.set("minval", definition_.first).set("maxval", definition_.second);
  } else if (definition_.distribution != Distribution::kConstant) {
    config.set("seed", seed);
    if (definition_.fan == Fan::kNone) {
      config.set("mean", definition_.first).set("stddev", definition_.second);
    }
  }
  return internal::keras_object("keras.initializers", definition_.class_name, std::move(config));
}

Initializer Initializer::from_config(const Config& config) {
  if (config.is_string()) return Initializer(config.as_string());
  Definition definition = find_definition(config.at("class_name").as_string());
  const Config& options = config.at("config");
  const auto read = [&](const char* key, double& value) {
    if (const Config* found = options.find(key)) value = found->as_number();
  };
  read("value", definition.first);
  read("mean", definition.first);
  read("minval", definition.first);
  read("stddev", definition.second);
  read("maxval", definition.second);
  const Config* seed = options.find("seed");
  if (seed != nullptr && seed->is_integer()) {
    definition.seed = static_cast<std::uint64_t>(seed->as_integer());
  }
  return Initializer(std::move(definition));
}

namespace initializers {

Initializer Zeros() {
  return "zeros";
}
Initializer Ones() {
  return "ones";
}

Initializer Constant(double value) {
  return Initializer(Definition{.class_name = "Constant", .first = value});
}

Initializer RandomUniform(const RandomUniformOptions& options) {
  return Initializer(Definition{.class_name = "RandomUniform",
                                .distribution = Distribution::kUniform,
                                .first = options.minval,
                                .second = options.maxval,
                                .seed = options.seed});
}

Initializer RandomNormal(const RandomNormalOptions& options) {
  return Initializer(Definition{.class_name = "RandomNormal",
                                .distribution = Distribution::kNormal,
                                .first = options.mean,
                                .second = options.stddev,
                                .seed = options.seed});
}

Initializer TruncatedNormal(const RandomNormalOptions& options) {
  return Initializer(Definition{.class_name = "TruncatedNormal",
                                .distribution = Distribution::kTruncatedNormal,
                                .first = options.mean,
                                .second = options.stddev,
                                .seed = options.seed});
}

Initializer GlorotUniform(const SeedOptions& options) {
  return Initializer(with_seed("glorot_uniform", options));
}
Initializer GlorotNormal(const SeedOptions& options) {
  return Initializer(with_seed("glorot_normal", options));
}
Initializer HeUniform(const SeedOptions& options) {
  return Initializer(with_seed("he_uniform", options));
}
Initializer HeNormal(const SeedOptions& options) {
  return Initializer(with_seed("he_normal", options));
}
Initializer LecunUniform(const SeedOptions& options) {
  return Initializer(with_seed("lecun_uniform", options));
}
Initializer LecunNormal(const SeedOptions& options) {
  return Initializer(with_seed("lecun_normal", options));
}

}  // namespace initializers
}  // namespace demi
