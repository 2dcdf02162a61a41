// Initializers: how the first value of a variable is made.
//
// A layer takes one by Keras' name or as a value:
//   .kernel_initializer = "he_normal"
//   .kernel_initializer = demi::initializers::RandomNormal({.stddev = 0.01})
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <demi/config.h>
#include <demi/dtype.h>
#include <demi/shape.h>
#include <demi/tensor.h>

namespace demi {

/// Seed of every layer constructed from now on: the initial weights and random streams of a layer
/// depend only on it and on how many layers have been constructed since this call. 0 at first, so
/// two runs of one program start from the same weights.
void set_random_seed(std::uint64_t seed);
[[nodiscard]] std::uint64_t random_seed();

/// A value; copies draw the same numbers.
class Initializer {
 public:
  // NOLINTBEGIN(google-explicit-constructor): options take an initializer by name
  /// "zeros", "ones", "constant" (0), "random_uniform", "random_normal", "truncated_normal",
  /// "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform" or
  /// "lecun_normal". Throws std::invalid_argument, with a suggestion, for any other.
  Initializer(const std::string& name);
  Initializer(const char* name) : Initializer(std::string(name)) {}
  // NOLINTEND(google-explicit-constructor)

  /// A tensor of `shape`. Element i depends on i, the initializer and its own seed, or `seed` if it
  /// has none. Drawn in float32 and rounded to `dtype`. Throws std::invalid_argument for unknown
  /// extents.
  [[nodiscard]] Tensor operator()(const Shape& shape, DType dtype, std::uint64_t seed) const;

  /// {"module", "class_name", "config", …} as Keras writes it.
  [[nodiscard]] Config get_config() const;
  /// From such a config or a name.
  [[nodiscard]] static Initializer from_config(const Config& config);

  /// What the numbers are drawn from.
  enum class Distribution { kConstant, kUniform, kNormal, kTruncatedNormal };
  /// Which extent of a kernel variance scaling divides by.
  enum class Fan { kNone, kIn, kAverage };

  /// How the factories below describe themselves.
  struct Definition {
    std::string class_name;
    Distribution distribution = Distribution::kConstant;
    double first = 0;      ///< constant, lower bound or mean
    double second = 0;     ///< upper bound or deviation
    Fan fan = Fan::kNone;  ///< if any, the variance is `scale` / fan and `first`, `second` unused
    double scale = 1;
    std::optional<std::uint64_t> seed = std::nullopt;
  };
  explicit Initializer(Definition definition) : definition_(std::move(definition)) {}

 private:
  Definition definition_;
};

namespace initializers {

[[nodiscard]] Initializer Zeros();
[[nodiscard]] Initializer Ones();
[[nodiscard]] Initializer Constant(double value = 0);

struct RandomUniformOptions {
  double minval = -0.05;
  double maxval = 0.05;
  std::optional<std::uint64_t> seed = std::nullopt;
};
/// Uniform in [minval, maxval).
[[nodiscard]] Initializer RandomUniform(const RandomUniformOptions& options = {});

struct RandomNormalOptions {
  double mean = 0;
  double stddev = 0.05;
  std::optional<std::uint64_t> seed = std::nullopt;
};
[[nodiscard]] Initializer RandomNormal(const RandomNormalOptions& options = {});
/// A normal distribution cut off two deviations from its mean; `stddev` is that of the uncut one.
[[nodiscard]] Initializer TruncatedNormal(const RandomNormalOptions& options = {});

struct SeedOptions {
  std::optional<std::uint64_t> seed = std::nullopt;
};
// Variance scaling. fan_in and fan_out are the inputs and outputs of one unit: the last two extents
// of a kernel times its receptive field. "uniform" is uniform within ±sqrt(3 · variance), "normal"
// a truncated normal of that variance.
/// variance 2 / (fan_in + fan_out): X. Glorot and Y. Bengio, "Understanding the difficulty of
/// training deep feedforward neural networks", AISTATS 2010.
[[nodiscard]] Initializer GlorotUniform(const SeedOptions& options = {});
[[nodiscard]] Initializer GlorotNormal(const SeedOptions& options = {});
/// variance 2 / fan_in: K. He et al., "Delving deep into rectifiers", ICCV 2015.
[[nodiscard]] Initializer HeUniform(const SeedOptions& options = {});
[[nodiscard]] Initializer HeNormal(const SeedOptions& options = {});
/// variance 1 / fan_in: Y. LeCun et al., "Efficient backprop", 1998.
[[nodiscard]] Initializer LecunUniform(const SeedOptions& options = {});
[[nodiscard]] Initializer LecunNormal(const SeedOptions& options = {});

}  // namespace initializers
}  // namespace demi
