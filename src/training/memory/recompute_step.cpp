#include "src/training/memory/recompute_step.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/core/check.h"
#include "src/layers/layer_state.h"
#include "src/passes/passes.h"
#include "src/training/memory/describe_memory.h"
#include "src/training/memory/limits.h"

namespace demi::internal {
namespace {

/// Whether `path` is the layer `name` or lies inside it.
bool is_of(const std::string& path, const std::string& name) {
  return path == name || path.starts_with(name + "/");
}

void list_paths(const LayerState& layer, std::vector<std::string>& paths) {
  paths.push_back(layer.path.empty() ? layer.name : layer.path);
  for (const auto& inner : layer.sublayers) list_paths(*inner, paths);
}

std::vector<ir::ValueId> values_of_layers(const ir::Graph& graph,
                                          const std::vector<std::string>& layers) {
  std::vector<ir::ValueId> values = passes::recomputable(graph);
  std::erase_if(values, [&](ir::ValueId value) {
    const std::string& path = graph.producer(value).scope.layer;
    return std::none_of(layers.begin(), layers.end(),
                        [&](const std::string& layer) { return is_of(path, layer); });
  });
  return values;
}

}  // namespace

void check_recompute(const LayerGraph& model, const Recompute& recompute) {
  std::vector<std::string> paths;
  for (const auto& layer : model.layers) list_paths(*layer->state(), paths);
  for (const std::string& layer : recompute.layers()) {
    if (std::find(paths.begin(), paths.end(), layer) != paths.end()) continue;
    fail_argument("compile",
                  fmt::format("expected recompute to be \"auto\" or layers of the model: {}. "
                              "Received: '{}'.{}",
                              fmt::join(paths, ", "), layer, did_you_mean(layer, paths)));
  }
}

void apply_recompute(const std::shared_ptr<ir::Graph>& graph, const LayerGraph& model,
                     const TrainingSpec& training, Backend& backend) {
  const Recompute& recompute = training.recompute;
  if (!recompute.is_auto()) {
    if (recompute.layers().empty()) return;
    passes::recompute(*graph, values_of_layers(*graph, recompute.layers()));
    return;
  }
  // Copies of calls run the same kernels: only the buffers differ.
  const auto plan = plan::make_plan(graph, backend);
  const std::size_t others =
      planned_bytes(model, *plan, training.optimizer.get()).total - plan->buffer_bytes;
  const auto bytes = [others](const ir::Graph& changed) {
    return others + plan::buffer_bytes(changed.shared_from_this());
  };
  const std::size_t limit = memory_limit(backend, training.memory_limit).bytes;
  passes::recompute(*graph, passes::choose_recomputation(*graph, limit, bytes));
}

RecomputedWork describe_recomputed(const ir::Graph& graph) {
  const passes::Recomputation found = passes::recomputation_of(graph);
  RecomputedWork described;
  described.calls = found.nodes.size();
  for (const ir::NodeId id : found.nodes) {
    const std::string& layer = graph.node(id).scope.layer;
    const auto& layers = described.layers;
    if (!layer.empty() && std::find(layers.begin(), layers.end(), layer) == layers.end()) {
      described.layers.push_back(layer);
    }
  }
  if (found.forward_work > 0) described.forward_share = found.work / found.forward_work;
  return described;
}

}  // namespace demi::internal
