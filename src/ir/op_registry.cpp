#include "src/ir/op_registry.h"

#include "src/core/check.h"

namespace demi::ir {

void register_builtin_ops(OpRegistry& registry);

#define OP(family) void register_##family##_ops(OpRegistry& registry);
#include "src/ops/ops.def"
#undef OP

const OpRegistry& OpRegistry::instance() {
  static const OpRegistry registry = [] {
    OpRegistry r;
    register_builtin_ops(r);
#define OP(family) register_##family##_ops(r);
#include "src/ops/ops.def"
#undef OP
    return r;
  }();
  return registry;
}

void OpRegistry::add(OpDef op) {
  const std::string name = op.name;
  DEMI_CHECK(ops_.emplace(name, std::move(op)).second, "op '" + name + "' is registered twice");
}

const OpDef& OpRegistry::find(std::string_view name) const {
  const auto found = ops_.find(name);
  DEMI_CHECK(found != ops_.end(), "unknown op '" + std::string(name) + "'");
  return found->second;
}

std::vector<std::string_view> OpRegistry::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, op] : ops_) names.push_back(name);
  return names;
}

}  // namespace demi::ir
