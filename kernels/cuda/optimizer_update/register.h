// The kernels of the family optimizer_update, by file.
#pragma once

#include "kernels/cuda/registry.h"

namespace demi::cuda::optimizer_update {

/// rules.cu: adam_update, sgd_update.
void register_rules(Registry& registry);
/// clip.cu: clip_coefficients.
void register_clip(Registry& registry);
/// averages.cu: accumulate_gradients, ema_update.
void register_averages(Registry& registry);

}  // namespace demi::cuda::optimizer_update
