#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <demi/memory.h>
#include <demi/plan.h>

#include "src/training/memory/format.h"

namespace demi {
namespace internal {

namespace {

std::string scaled(std::size_t bytes, const std::array<const char*, 5>& units) {
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace

std::string format_bytes(std::size_t bytes) {
  return scaled(bytes, {"B", "KiB", "MiB", "GiB", "TiB"});
}

std::string format_bytes_as_keras(std::size_t bytes) {
  return scaled(bytes, {"B", "KB", "MB", "GB", "TB"});
}

const char* step_name(StepMode mode) {
  switch (mode) {
    case StepMode::kTrain:
      return "training";
    case StepMode::kEvaluate:
      return "evaluation";
    case StepMode::kPredict:
      return "prediction";
  }
  return "";
}

}  // namespace internal

namespace {

using internal::format_bytes;
using internal::step_name;

/// Buffers of the peak that are listed by name.
constexpr std::size_t kListed = 8;

std::string title(const MemoryPlan& plan) {
  return fmt::format("One {} step under {}, batch {}, on {}", step_name(plan.mode), plan.policy,
                     plan.batch_size, plan.device);
}

std::string line(const char* name, std::size_t bytes, const std::string& note = "") {
  return fmt::format("  {:34} {:>15} B {:>11}{}{}\n", name, bytes, format_bytes(bytes),
                     note.empty() ? "" : "  ", note);
}

std::string format_categories(const MemoryPlan& plan) {
  const PlannedBytes& bytes = plan.bytes;
  const std::size_t live = plan.timeline.empty() ? 0 : plan.timeline[plan.peak_call()].live();
  std::string text = "What demi allocates\n";
  text += line("weights", bytes.weights);
  text += line("optimizer slots", bytes.optimizer);
  text += line("arena", bytes.arena, "of which, each at its own peak:");
  text += line("  weights in the compute dtype", bytes.compute_copies);
  text += line("  activations kept for backward", bytes.activations);
  text += line("  gradients", bytes.gradients);
  text += line("  temporaries", bytes.temporaries);
  text += line("  workspace of kernels", bytes.workspace);
  text += line("  gaps between buffers", bytes.arena - bytes.workspace - live);
  text += line("input buffers", bytes.input_buffers);
  text += line("constants", bytes.constants);
  text += line("step state", bytes.step_state);
  text += line("total", bytes.total);
  text += line(plan.overhead.measured ? "not demi's, measured" : "not demi's, estimate",
               plan.overhead.bytes, plan.overhead.source);
  text += line("process", bytes.total + plan.overhead.bytes);
  if (plan.aliased_bytes() > 0) {
    text += fmt::format("Results written in place or read as views need no {} of their own.\n",
                        format_bytes(plan.aliased_bytes()));
  }
  return text;
}

std::string format_layers(const MemoryPlan& plan) {
  std::size_t width = 5;
  for (const LayerBytes& layer : plan.layers) width = std::max(width, layer.layer.size());
  std::string text = fmt::format(
      "By layer; activations and temporaries summed over the step\n"
      "  {:{}} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n",
      "layer", width, "weights", "copies", "gradients", "optimizer", "activations", "temporaries",
      "workspace");
  for (const LayerBytes& layer : plan.layers) {
    text += fmt::format("  {:{}} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n",
                        layer.layer.empty() ? "-" : layer.layer, width, format_bytes(layer.weights),
                        format_bytes(layer.compute_copies), format_bytes(layer.gradients),
                        format_bytes(layer.optimizer), format_bytes(layer.activations),
                        format_bytes(layer.temporaries), format_bytes(layer.workspace));
  }
  return text;
}

std::string format_recomputed(const MemoryPlan& plan) {
  const RecomputedWork& work = plan.recomputed;
  if (work.calls == 0) return "";
  return fmt::format(
      "Recomputed: {} calls run again in the backward half, {:.0f} % of the forward "
      "half's work (estimate), of: {}\n",
      work.calls, 100 * work.forward_share, fmt::join(work.layers, ", "));
}

std::string name_of(const std::string& layer, const std::string& op) {
  return layer.empty() ? op : layer + ": " + op;
}

std::string format_peak(const MemoryPlan& plan) {
  if (plan.timeline.empty()) return "";
  const std::size_t peak = plan.peak_call();
  const MemoryMoment& moment = plan.timeline[peak];
  std::string text =
      fmt::format("Peak: {} live at call {} of {}, {} {}\n", format_bytes(moment.live()), peak + 1,
                  plan.timeline.size(), moment.phase, name_of(moment.layer, moment.op));
  const std::vector<PlannedBuffer> held = plan.held_at(peak);
  std::size_t others = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (i >= kListed) {
      others += held[i].bytes;
      continue;
    }
    text += fmt::format("  {:>11}  {:12} {} {}\n", format_bytes(held[i].bytes),
                        to_string(held[i].kind), name_of(held[i].layer, held[i].op), held[i].type);
    for (const std::string& alias : held[i].aliases) {
      text += fmt::format("  {:>11}  {:12} {}\n", "", "also holds", alias);
    }
  }
  if (others > 0) {
    text += fmt::format("  {:>11}  in {} more\n", format_bytes(others), held.size() - kListed);
  }
  return text;
}

}  // namespace

std::string to_string(const MemoryPlan& plan) {
  return title(plan) + "\n" + format_categories(plan) + format_recomputed(plan) +
         format_layers(plan) + format_peak(plan);
}

std::string format_timeline(const MemoryPlan& plan) {
  std::string text =
      fmt::format("{:>4} {:8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}  call\n", "", "phase",
                  "live", "activations", "gradients", "copies", "temporaries", "workspace");
  const std::size_t peak = plan.timeline.empty() ? 0 : plan.peak_call();
  for (std::size_t i = 0; i < plan.timeline.size(); ++i) {
    const MemoryMoment& moment = plan.timeline[i];
    text += fmt::format(
        "{:4} {:8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}  {}{}\n", i + 1, moment.phase,
        format_bytes(moment.live()), format_bytes(moment.activations),
        format_bytes(moment.gradients), format_bytes(moment.compute_copies),
        format_bytes(moment.temporaries), format_bytes(moment.workspace),
        name_of(moment.layer, moment.op),
        std::string(moment.recomputed ? ", again" : "") + (i == peak ? "  <- peak" : ""));
  }
  return text;
}

std::string to_string(const MemoryComparison& comparison) {
  const MemoryPlan& first = comparison.first;
  const MemoryPlan& second = comparison.second;
  std::string text = fmt::format("One {} step, batch {}, on {}\n  {:18} {:>15} {:>15} {:>6}\n",
                                 step_name(first.mode), first.batch_size, first.device, "",
                                 first.policy, second.policy, "ratio");
  for (const ComparedBytes& row : comparison.categories) {
    const std::string ratio = row.first == 0
                                  ? ""
                                  : fmt::format("{:.2f}", static_cast<double>(row.second) /
                                                              static_cast<double>(row.first));
    text += fmt::format("  {:18} {:>15} {:>15} {:>6}  {}\n", row.category, format_bytes(row.first),
                        format_bytes(row.second), ratio, row.reason);
  }
  if (comparison.break_even == 0) {
    text += fmt::format(
        "Weights never shrink: {} needs at least as much as {} at every batch size "
        "up to {}.\n",
        second.policy, first.policy, kMaxBatchSize);
  } else {
    text += fmt::format(
        "Weights never shrink, activations do: {} needs less in total from batch "
        "size {} on.\n",
        second.policy, comparison.break_even);
  }
  return text;
}

}  // namespace demi
