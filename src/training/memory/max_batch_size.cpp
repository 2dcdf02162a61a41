#include <fmt/format.h>

#include <demi/plan.h>

#include "src/core/check.h"
#include "src/training/memory/batch_search.h"

namespace demi {

std::int64_t max_batch_size(const Model& model, std::size_t limit_bytes,
                            const MemoryPlanOptions& options) {
  const auto total = [&](std::int64_t batch) {
    return model.memory_plan(batch, options).bytes.total;
  };
  const std::int64_t batch = internal::largest_batch(total, limit_bytes, kMaxBatchSize);
  if (batch > 0) return batch;
  const PlannedBytes least = model.memory_plan(1, options).bytes;
  internal::fail_argument(
      "max_batch_size",
      fmt::format("expected a limit of at least {} bytes, which a batch of 1 needs: weights {}, "
                  "optimizer {}, arena {}, input buffers {}, constants and state {}. Received: {}.",
                  least.total, least.weights, least.optimizer, least.arena, least.input_buffers,
                  least.constants + least.step_state, limit_bytes));
}

}  // namespace demi
