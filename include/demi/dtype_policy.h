// DTypePolicy: in which dtypes a layer computes and keeps its variables.
#pragma once

#include <string>
#include <string_view>

#include <demi/dtype.h>

namespace demi {

/// A value, by name:
///   "float32", "float64", "float16", "bfloat16"   computes in and stores variables as that dtype
///   "mixed_float16", "mixed_bfloat16"             computes in 16 bits, variables are float32
/// A layer's output has the compute dtype; model outputs, losses, statistics and optimizer slots
/// are float32 whatever the policy (float64 under "float64").
class DTypePolicy {
 public:
  /// "float32".
  DTypePolicy() = default;
  // NOLINTBEGIN(google-explicit-constructor): options take a policy by name
  /// Throws std::invalid_argument with the valid names for any other.
  DTypePolicy(std::string_view name);
  DTypePolicy(const char* name) : DTypePolicy(std::string_view(name)) {}
  DTypePolicy(const std::string& name) : DTypePolicy(std::string_view(name)) {}
  /// Throws std::invalid_argument unless `dtype` is floating.
  DTypePolicy(DType dtype);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] DType compute_dtype() const { return compute_dtype_; }
  [[nodiscard]] DType variable_dtype() const { return variable_dtype_; }

  friend bool operator==(const DTypePolicy&, const DTypePolicy&) = default;

 private:
  std::string name_ = "float32";
  DType compute_dtype_ = DType::kFloat32;
  DType variable_dtype_ = DType::kFloat32;
};

/// The policy of layers constructed from now on, in any thread, unless their `.dtype` says
/// otherwise. Layers that exist already keep theirs. Starts as "float32".
void set_global_policy(const DTypePolicy& policy);
[[nodiscard]] DTypePolicy global_policy();

}  // namespace demi
