// The kernels of the family optimizer_update, by file.
#pragma once

#include "kernels/cpu/registry.h"

namespace demi::cpu {

/// rules.cpp: adam_update, sgd_update.
void register_update_rules(Registry& registry);

}  // namespace demi::cpu
