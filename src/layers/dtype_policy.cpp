#include <demi/dtype_policy.h>

#include <array>
#include <mutex>

#include "src/core/check.h"

namespace demi {
namespace {

struct NamedPolicy {
  std::string_view name;
  DType compute;
  DType variable;
};

constexpr std::array<NamedPolicy, 6> kPolicies = {{
    {"float32", float32, float32},
    {"float64", float64, float64},
    {"float16", float16, float16},
    {"bfloat16", bfloat16, bfloat16},
    {"mixed_float16", float16, float32},
    {"mixed_bfloat16", bfloat16, float32},
}};

[[noreturn]] void refuse(std::string_view name) {
  std::string valid;
  std::array<std::string_view, kPolicies.size()> names;
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    names[i] = kPolicies[i].name;
    valid.append(i == 0 ? "'" : ", '").append(names[i]).append("'");
  }
  internal::fail_argument("dtype_policy", "expected one of " + valid + ". Received: '" +
                                              std::string(name) + "'." +
                                              internal::did_you_mean(name, names));
}

struct GlobalPolicy {
  std::mutex mutex;
  DTypePolicy policy;
};

GlobalPolicy& global() {
  static GlobalPolicy instance;
  return instance;
}

}  // namespace

DTypePolicy::DTypePolicy(std::string_view name) {
  for (const NamedPolicy& policy : kPolicies) {
    if (policy.name != name) continue;
    name_ = policy.name;
    compute_dtype_ = policy.compute;
    variable_dtype_ = policy.variable;
    return;
  }
  refuse(name);
}

DTypePolicy::DTypePolicy(DType dtype) : DTypePolicy(to_string(dtype)) {}

void set_global_policy(const DTypePolicy& policy) {
  const std::lock_guard lock(global().mutex);
  global().policy = policy;
}

DTypePolicy global_policy() {
  const std::lock_guard lock(global().mutex);
  return global().policy;
}

}  // namespace demi
