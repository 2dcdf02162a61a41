#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <demi/error.h>
#include <demi/plan.h>

#include "src/training/memory/batch_search.h"
#include "src/training/memory/describe_memory.h"
#include "src/training/memory/format.h"
#include "src/training/memory/limits.h"
#include "src/training/trainer.h"

namespace demi {
PlannedBytes Trainer::planned_bytes(const plan::Plan* another, bool trains) const {
  const Optimizer* optimizer = trains ? training_->optimizer.get() : nullptr;
  PlannedBytes all;
  std::size_t buffers = 0, workspace = 0, copies = 0;
  const auto add = [&](const plan::Plan& plan) {
    const PlannedBytes bytes = internal::planned_bytes(model_, plan, optimizer);
    all.weights = bytes.weights;
    all.optimizer = bytes.optimizer;
    all.step_state = std::max(all.step_state, bytes.step_state);
    all.input_buffers += bytes.input_buffers;
    all.constants += bytes.constants;
    // The arena grows in two parts.
    buffers = std::max(buffers, plan.buffer_bytes);
    workspace = std::max(workspace, plan.workspace_bytes);
    copies = std::max(copies, plan.memory().kept_copies);
  };
  for (const auto& program : programs_) add(program->plan());
  if (another != nullptr) add(*another);
  all.workspace = workspace;
  all.arena = buffers + workspace;
  std::set<std::shared_ptr<VariableState>> arrays;
  for (const auto& [mode, list] : arrays_) arrays.insert(list.begin(), list.end());
  for (const auto& array : arrays) all.data_sets += array->type.bytes();
  all.total = all.weights + all.optimizer + all.arena + all.input_buffers + all.data_sets +
              all.constants + all.step_state + copies;
  return all;
}

void Trainer::check_memory(const plan::Plan& plan, const Dataset& data, const StepSpec& spec,
                           const std::string& where) const {
  const internal::MemoryLimit limit =
      internal::memory_limit(arena_->backend(), options_.memory_limit);
  const bool trains = spec.mode == StepMode::kTrain;
  const PlannedBytes all = planned_bytes(&plan, trains_ || trains);
  if (all.total <= limit.bytes) return;
  const PlannedBytes own =
      internal::planned_bytes(model_, plan, trains ? training_->optimizer.get() : nullptr);
  const std::size_t others = all.total - std::min(all.total, own.total);
  const auto bytes = [&](std::int64_t batch) {
    const MemoryPlanOptions options = {.mode = spec.mode, .data = data};
    return others + memory_plan(batch, options, where).bytes.total;
  };
  const std::int64_t rows = spec.inputs.at(0).type.shape[0];
  const std::int64_t fits = internal::largest_batch(bytes, limit.bytes, rows);
  throw OutOfMemory(fmt::format(
      "[{}] expected {} to fit into {} bytes, {}. Planned for batches of {}: {} bytes (weights {}, "
      "optimizer {}, arena {}, input buffers {}, constants and state {}). {} {}.",
      where, internal::step_name(spec.mode), limit.bytes, limit.origin, rows, all.total,
      all.weights, all.optimizer, all.arena, all.input_buffers, all.constants + all.step_state,
      fits > 0 ? fmt::format("The largest batch that fits is {};", fits)
               : std::string("Not even a batch of 1 fits;"),
      trains ? "a mixed policy, recompute = \"auto\" and smaller batches with "
               "gradient_accumulation_steps need less"
             : "a mixed policy needs less"));
}

}  // namespace demi
