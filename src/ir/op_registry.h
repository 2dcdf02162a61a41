// OpRegistry: the ops demi knows, by name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/ir/op_def.h"

namespace demi::ir {

/// Filled on first use by calling register_<family>_ops for each line of src/ops/ops.def, then
/// immutable.
class OpRegistry {
 public:
  static const OpRegistry& instance();

  /// Throws InternalError if the name is taken.
  void add(OpDef op);

  /// Throws InternalError for an unknown name. The reference lives as long as the registry.
  [[nodiscard]] const OpDef& find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string_view> names() const;

 private:
  std::map<std::string, OpDef, std::less<>> ops_;
};

}  // namespace demi::ir
