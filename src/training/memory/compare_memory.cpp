#include <fmt/format.h>

#include <demi/plan.h>

#include "src/training/memory/batch_search.h"
#include "src/training/memory/format.h"

namespace demi {
namespace {

using internal::format_bytes;

/// Of the activations: bytes by the width of their elements.
struct Widths {
  std::size_t wide = 0;   ///< float32 and float64
  std::size_t half = 0;   ///< float16 and bfloat16
  std::size_t other = 0;  ///< indices, flags
};

Widths widths_of_activations(const MemoryPlan& plan) {
  Widths widths;
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::kActivation) continue;
    const bool is_half = buffer.type.starts_with("float16") || buffer.type.starts_with("bfloat16");
    const bool is_wide = buffer.type.starts_with("float") && !is_half;
    (is_half ? widths.half : is_wide ? widths.wide : widths.other) += buffer.bytes;
  }
  return widths;
}

std::string reason_of_activations(const MemoryPlan& plan) {
  const Widths widths = widths_of_activations(plan);
  std::string text = fmt::format("{} in 16 bits", format_bytes(widths.half));
  if (widths.wide > 0) {
    text += fmt::format(", {} stay float32 (losses, statistics, float32 layers)",
                        format_bytes(widths.wide));
  }
  if (widths.other > 0) {
    text += fmt::format(", {} are indices or flags", format_bytes(widths.other));
  }
  return text;
}

std::vector<ComparedBytes> compare_categories(const MemoryPlan& first, const MemoryPlan& second) {
  const PlannedBytes& a = first.bytes;
  const PlannedBytes& b = second.bytes;
  return {
      {"weights", a.weights, b.weights, "master weights are float32 under every mixed policy"},
      {"optimizer slots", a.optimizer, b.optimizer, "moments and averages are float32"},
      {"compute copies", a.compute_copies, b.compute_copies,
       "every weight that is multiplied is converted once a step, and kept beside the master"},
      {"gradients", a.gradients, b.gradients,
       "weight gradients are stored as float32, as the kernels accumulate them"},
      {"activations", a.activations, b.activations, reason_of_activations(second)},
      {"temporaries", a.temporaries, b.temporaries,
       "gradients of activations and results used at once follow the activations"},
      {"workspace", a.workspace, b.workspace, "scratch memory of the kernels that are chosen"},
      {"arena", a.arena, b.arena, "the five above as laid out; they take turns"},
      {"input buffers", a.input_buffers, b.input_buffers,
       "samples are copied in the dtype in which they are stored"},
      {"constants, state", a.constants + a.step_state, b.constants + b.step_state,
       "counters, loss scale, metric sums"},
      {"total", a.total, b.total, ""},
  };
}

}  // namespace

MemoryComparison compare_memory(const Model& model, std::int64_t batch_size,
                                const std::string& first_policy, const std::string& second_policy,
                                const MemoryPlanOptions& options) {
  MemoryPlanOptions first = options, second = options;
  first.policy = first_policy;
  second.policy = second_policy;
  MemoryComparison comparison;
  comparison.first = model.memory_plan(batch_size, first);
  comparison.second = model.memory_plan(batch_size, second);
  comparison.categories = compare_categories(comparison.first, comparison.second);
  // What the second policy adds, on a scale that grows with the batch and stays above zero.
  constexpr std::size_t kLevel = std::size_t{1} << 52;
  const auto saved = [&](std::int64_t batch) {
    return kLevel + model.memory_plan(batch, first).bytes.total -
           model.memory_plan(batch, second).bytes.total;
  };
  const std::int64_t last_without = internal::largest_batch(saved, kLevel, kMaxBatchSize);
  comparison.break_even = last_without == kMaxBatchSize ? 0 : last_without + 1;
  return comparison;
}

}  // namespace demi
