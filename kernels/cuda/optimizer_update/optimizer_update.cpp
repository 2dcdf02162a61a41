// Candidates of the family optimizer_update.

#include "kernels/cuda/optimizer_update/register.h"

namespace demi::cuda {

void register_optimizer_update_kernels(Registry& registry) {
  optimizer_update::register_rules(registry);
  optimizer_update::register_clip(registry);
  optimizer_update::register_averages(registry);
}

}  // namespace demi::cuda
