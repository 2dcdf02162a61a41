#include "kernels/cuda/cudnn/select_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "kernels/cuda/cudnn/autotune.h"
#include "kernels/cuda/cudnn/tuned_engines.h"

namespace demi::cuda::cudnn {
namespace {

constexpr std::size_t kMostTimed = 8;

/// Why Note [Engines] leaves an engine out; "" if it does not.
std::string objection(const EngineNotes& notes, bool sixteen_bit, const Options& options) {
  if (notes.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)) return "compiled at run time";
  if (notes.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return "converting operands down";
  if (notes.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) {
    return "reducing in low precision";
  }
  if (options.deterministic && notes.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) {
    return "not deterministic";
  }
  if (sixteen_bit) {
    const bool transforms = notes.has(CUDNN_NUMERICAL_NOTE_FFT) ||
                            notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
                            notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) ||
                            notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) ||
                            notes.has(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
    if (transforms) return "transforming 16-bit data";
  } else if (!options.allow_tf32 && notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) {
    return "rounding float32 to TF32";
  }
  return "";
}

/// Collects the plans that may be used, and counts the rest by objection.
class Search {
 public:
  Search(const PlanRequest& request, const Options& options, std::size_t most)
      : request_(request), options_(options), most_(most) {}

  std::vector<Plan> run() {
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      for (Descriptor& config : suggestions(mode)) {
        if (plans_.size() == most_) return std::move(plans_);
        consider(EngineConfig(std::move(config)));
      }
    }
    return std::move(plans_);
  }

  [[nodiscard]] std::string summary() const {
    if (seen_.empty()) {
      return "cuDNN suggests no engine" + (last_error_.empty() ? "" : " (" + last_error_ + ")");
    }
    std::string text = fmt::format("none of cuDNN's {} engine configurations: ", seen_.size());
    const char* separator = "";
    for (const auto& [why, count] : objections_) {
      text += fmt::format("{}{} {}", separator, count, why);
      separator = ", ";
    }
    return last_error_.empty() ? text : text + " (" + last_error_ + ")";
  }

 private:
  std::vector<Descriptor> suggestions(cudnnBackendHeurMode_t mode) {
    const Graph& graph = *request_.graph;
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
    graph.target().describe(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    if (!heuristics.finalize(last_error_)) return {};
    return heuristics.descriptors(
        CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
        heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR));
  }

  void consider(EngineConfig config) {
    if (std::find(seen_.begin(), seen_.end(), config.choice()) != seen_.end()) return;
    seen_.push_back(config.choice());
    std::string why = objection(config.notes(), request_.sixteen_bit, options_);
    if (why.empty()) {
      std::optional<Plan> plan = Plan::make(request_.graph, std::move(config), last_error_);
      if (!plan) {
        why = "refused";
      } else if (plan->workspace_bytes() > options_.workspace_limit) {
        why = fmt::format("over {} bytes of workspace", options_.workspace_limit);
      } else {
        plans_.push_back(std::move(*plan));
        return;
      }
    }
    ++objections_[why];
  }

  const PlanRequest& request_;
  const Options& options_;
  std::size_t most_;
  std::vector<Plan> plans_;
  std::vector<EngineChoice> seen_;
  std::map<std::string, int> objections_;
  std::string last_error_;
};

/// Everything besides the graph that a measured choice depends on.
std::string tuning_key(const Context& context, const std::string& graph) {
  const DeviceProperties& device = context.properties();
  const Options& options = context.options();
  return fmt::format("cudnn {} | {} sm_{} | tf32={:d} deterministic={:d} workspace={} | {}",
                     cudnnGetVersion(), device.name, device.compute_capability, options.allow_tf32,
                     options.deterministic, options.workspace_limit, graph);
}

/// The plan chosen by an earlier measurement.
std::optional<Plan> recall(Context& context, const PlanRequest& request, const std::string& key) {
  const std::optional<EngineChoice> choice = context.tuned_engines().find(key);
  if (!choice) return std::nullopt;
  std::string reason;
  std::optional<EngineConfig> config = EngineConfig::rebuild(*request.graph, *choice, reason);
  std::optional<Plan> plan;
  if (config) plan = Plan::make(request.graph, std::move(*config), reason);
  if (!plan) {
    std::fprintf(stderr, "[cudnn] the engine kept for '%s' is measured again: %s\n", key.c_str(),
                 reason.c_str());
  }
  return plan;
}

}  // namespace

std::optional<Plan> select_plan(Context& context, const PlanRequest& request, std::string& reason) {
  const bool tune = context.has_device() && context.options().autotune;
  const std::string key = tuning_key(context, request.key);
  if (tune) {
    if (std::optional<Plan> plan = recall(context, request, key)) return plan;
  }
  Search search(request, context.options(), tune ? kMostTimed : 1);
  std::vector<Plan> plans = search.run();
  if (plans.empty()) {
    reason = search.summary();
    return std::nullopt;
  }
  if (!tune) return std::move(plans.front());
  const std::optional<std::size_t> best = fastest(plans, context.stream(), reason);
  if (!best) return std::nullopt;
  context.tuned_engines().keep(key, plans[*best].choice());
  return std::move(plans[*best]);
}

}  // namespace demi::cuda::cudnn
